"""The console of a realm lies below the realm's path, with its own content and logins, and links to other realms."""

from __future__ import annotations

import httpx
import pytest

from tests.console.browser import Looker
from tests.console.stage import CALM
from tests.realms.world import offer, write_realms
from tests.world import HubProcess, eventually

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]


@pytest.fixture
def hub(own_server, tmp_path):
    """A hub with a realm, on one server."""
    file = write_realms(tmp_path / "realms.toml", eu=(own_server.url, {}))
    with HubProcess({**CALM, "HUB_REDIS_URL": own_server.url, "HUB_REALMS_FILE": str(file)}) as found:
        yield found


async def test_each_realm_has_its_own_console_and_login(window, hub):
    async with httpx.AsyncClient(base_url=hub.url, headers={"x-hub-secret": hub.node_secret}) as node:

        async def is_open() -> bool:
            return (await node.get("/realms/eu/health/ready")).status_code == 200

        await eventually(is_open)
        await offer(node, "here", "gpu:a", "s1")
        await offer(node, "there", "gpu:a", "s1", headers={"x-hub-realm": "eu"})
    context = await window.context()
    looker = Looker(await context.new_page(), f"{hub.url}/realms/eu")
    await looker.log_in(hub.admin_secret)
    await looker.go("nodes")
    assert "there" in await looker.text()
    assert "here" not in (await looker.text()).replace("there", "")
    await looker.go("realms")
    assert {"eu this one", "default"} == {
        " ".join(text.split()) for text in await looker.page.locator("tbody tr > :first-child").all_inner_texts()
    }
    assert await looker.page.get_by_role("link", name="default", exact=True).get_attribute("href") == "/"
    assert await looker.page.locator("html").get_attribute("data-violations") == "0"
    await looker.page.wait_for_function("() => document.documentElement.dataset.stream === 'live'")
    switch = looker.page.get_by_label("Realm", exact=True)
    assert await switch.input_value() == "eu"
    await switch.select_option("default")
    await looker.page.get_by_label("Secret or token").wait_for()
    assert looker.page.url.startswith(f"{hub.url}/#")
    looker.url = hub.url
    await looker.log_in(hub.admin_secret)
    await looker.go("nodes")
    assert "there" not in await looker.text()
    await looker.page.get_by_label("Realm", exact=True).select_option("eu")
    await looker.page.locator("#health, .troubles").first.wait_for()  # still logged in there
    assert looker.page.url.startswith(f"{hub.url}/realms/eu/#")
    names = {each["name"] for each in await context.cookies()}
    assert names == {f"hub_login.{hub.port}", f"hub_login.{hub.port}_eu"}
    assert looker.complaints == []
    await context.close()

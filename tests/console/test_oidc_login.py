"""Logging in to the console by an issuer of another site, in a browser."""

from __future__ import annotations

import pytest

from tests.console.browser import Looker
from tests.console.stage import CALM
from tests.issuer import CLIENT, Issuer
from tests.world import HubProcess, free_port

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]
RULES = """
[[rules]]
when = { groups = "ml" }
role = "operator"
"""


@pytest.fixture
def issuer():
    with Issuer("localhost") as found:
        yield found


@pytest.fixture
def hub(own_server, issuer, tmp_path):
    (tmp_path / "rules.toml").write_text(RULES)
    port = free_port()
    variables = {
        "HUB_PORT": str(port), "HUB_PUBLIC_URL": f"http://127.0.0.1:{port}", "HUB_OIDC_ISSUER": issuer.url,
        "HUB_OIDC_CLIENT_ID": CLIENT, "HUB_OIDC_RULES_FILE": str(tmp_path / "rules.toml"),
    }  # fmt: skip
    with HubProcess({**CALM, "HUB_REDIS_URL": own_server.url, **variables}) as found:
        yield found


@pytest.mark.parametrize("asks", [False, True])
async def test_a_user_of_the_issuer_logs_in_acts_and_logs_out(window, hub, issuer, asks):
    issuer.asks = asks
    context = await window.context()
    looker = Looker(await context.new_page(), hub.url)
    page, backs = looker.page, []
    page.on("request", lambda request: backs.append(request.url) if "/oidc/callback" in request.url else None)
    await page.goto(f"{hub.url}/")
    await page.get_by_role("link", name="Log in with your organisation's account").click()
    if asks:
        await page.get_by_role("link", name="Go on as ann").click()
    await page.get_by_role("heading", name="Overview").wait_for()
    assert page.url.startswith(f"{hub.url}/#/overview")
    assert await page.locator(".who").inner_text() == "operator"
    assert await page.locator(".who").get_attribute("title") == f"login of ann at {issuer.url}"
    assert {each["name"].partition(".")[0] for each in await context.cookies()} == {"hub_login"}
    await looker.go("pools")
    await page.goto(backs[0])  # the same code again
    assert "finished already" in await page.locator("p").first.inner_text()
    await page.get_by_role("link", name="Back to the console").click()
    await page.get_by_role("heading", name="Overview").wait_for()
    await page.get_by_role("button", name="Log out").click()
    await page.get_by_label("Secret or token").wait_for()
    assert not await context.cookies()
    assert await page.evaluate("document.documentElement.dataset.violations") == "0"
    assert looker.complaints == []
    await context.close()


async def test_a_stranger_is_told_and_stays_out(window, hub, issuer):
    issuer.user["groups"] = ["sales"]
    context = await window.context()
    page = await context.new_page()
    await page.goto(f"{hub.url}/console/oidc/login")
    assert "No rule of this hub" in await page.locator("p").first.inner_text()
    assert not await context.cookies()
    await context.close()


async def test_a_hub_without_an_issuer_offers_no_such_login(window, own_server):
    with HubProcess({**CALM, "HUB_REDIS_URL": own_server.url}) as hub:
        context = await window.context()
        page = await context.new_page()
        await page.goto(f"{hub.url}/")
        await page.get_by_label("Secret or token").wait_for()
        assert await page.get_by_role("link", name="organisation").count() == 0
        await context.close()

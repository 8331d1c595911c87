"""The reference of the API in a real browser: reached from the console, and complete without any other machine."""

from __future__ import annotations

import re

import pytest

from tests.console.browser import Looker
from tests.world import HubProcess

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]


async def test_the_console_links_to_a_reference_that_loads_nothing_from_other_machines(window, start_hub):
    hub: HubProcess = start_hub()
    context = await window.context()
    looker = Looker(await context.new_page(), hub.url)
    asked: list[str] = []
    context.on("request", lambda request: asked.append(request.url))
    await looker.log_in(hub.admin_secret)
    await looker.page.get_by_role("link", name="API reference").click()
    await looker.page.locator(".opblock").first.wait_for()
    assert looker.page.url == f"{hub.url}/docs"
    assert await looker.page.get_by_text("/session/borrow", exact=True).count() == 1
    assert [url for url in asked if not re.match(rf"{re.escape(hub.url)}/|data:|blob:", url)] == []
    assert looker.complaints == []
    await context.close()

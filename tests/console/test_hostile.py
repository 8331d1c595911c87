"""Names chosen to break the page: it shows them as they are, and acts on the things that have them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.console.stage import Stage, staged

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]

NODES = [
    "../x", "a/../../admin/sweeper", "<img src=x onerror=alert(1)>", '"><script>alert(2)</script>',
    "javascript:alert(3)", "a?detail=1&x#y", "100%", "%2e%2e", "'); drop", "x" * 300, "\u202egnp.exe",
    "日本 é 🦀", "constructor", "__proto__",
]  # fmt: skip
LONG = "gpu:" + "a" * 400
RUN = "<b>run</b>" + "r" * 150


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(own_server) -> AsyncIterator[Stage]:
    """A hub on which everything has such a name."""
    async with staged(own_server) as found:
        for number, name in enumerate(NODES):
            await found.publish(name, {f"s{number}": LONG}, labels={"<i>zone</i>": name}, baseUrl=name)
        await found.publish("plain", {"s" * 200: "phone:pixel"})
        await found.borrow("phone:pixel", RUN)
        await found.admin.put("/admin/caps/" + LONG, json={"cap": 1, "by": "<b>ann</b>"})
        await found.borrow(LONG, RUN)
        await found.wait_for(LONG, 1)
        yield found


@pytest.mark.parametrize("name", NODES, ids=lambda name: ascii(name)[:20])
async def test_a_node_with_a_hostile_name_can_be_found_shown_and_drained(looker, stage, name):
    page = looker.page
    await looker.go("nodes")
    await page.get_by_role("link", name=name, exact=True).click()
    await page.get_by_role("heading", name=name, exact=True).wait_for()
    await page.get_by_role("button", name="Drain…").click()
    await page.get_by_label("Reason").fill(name)
    await page.get_by_role("button", name="Drain", exact=True).click()
    await page.get_by_role("button", name="Undrain…").wait_for()
    drained = (await stage.admin.get("/nodes?detail=1&state=draining&limit=100")).json()["nodes"]
    assert name in [each["nodeId"] for each in drained]
    entries = (await stage.admin.get("/audit?category=console")).json()
    assert entries[0]["details"]["reason"] == name
    await page.locator("#find").fill(name)
    await page.keyboard.press("Enter")
    await page.get_by_role("heading", name=f"node {name}", exact=True).wait_for()


async def test_no_hostile_text_becomes_markup_or_overflows_the_screen(looker):
    page = looker.page
    await page.set_viewport_size({"width": 390, "height": 844})
    wide = []
    for view in (
        "overview", "pools", f"pools/{LONG}", "nodes", "leases", "queue", "events", "events/audit", "switches",
        f"why?id={LONG}", f"nodes/{NODES[9]}", "why?id=s1",
    ):  # fmt: skip
        await looker.go(view)
        if await page.evaluate("document.documentElement.scrollWidth") > 390:
            wide.append(view)
        assert await page.locator("main img, main script, main i:not([hidden]), main u").count() == 0, view
    await page.set_viewport_size({"width": 1280, "height": 860})
    assert wide == []


async def test_a_name_that_browsers_take_for_a_parent_folder_is_refused_in_a_sentence(looker):
    await looker.go("nodes/..")
    await looker.page.get_by_text("A browser cannot ask for an id that is . or ..").first.wait_for()

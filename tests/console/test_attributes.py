"""What slots have and what borrowers want, as the console shows it, and a slot that is taken by what it has."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.console.stage import Stage, staged
from tests.console.test_mine import leases, opened
from tests.world import eventually

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]
LABEL = "lab:gpu"
SLOTS = [
    {"slotId": "small", "label": LABEL, "attributes": {"vram": 16, "features": ["mig"]}, "warm": ["repo-42", "repo-7"]},
    {"slotId": "large", "label": LABEL, "attributes": {"vram": 40}},
    {"slotId": "plain", "label": "lab:plain"},
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(own_server) -> AsyncIterator[Stage]:
    """A hub with slots that have attributes, and two borrowers that want what none has."""
    async with staged(own_server) as found:
        (await found.node.post("/node/register", json={"nodeId": "rack", "slots": SLOTS})).raise_for_status()
        wish = {"label": LABEL, "where": "vram >= 80", "anyOf": [{"label": "lab:cpu"}], "runId": "r1"}
        calls = [
            asyncio.create_task(found.runner.post("/session/borrow", json=each, headers={"idempotency-key": key}))
            for key, each in {"big": wish, "any": {"label": "lab:cpu", "runId": "r2"}}.items()
        ]

        async def wait() -> bool:
            return bool((await found.admin.get("/queue")).json()["waiting"] == 2)

        await eventually(wait)
        yield found
        for key in ("big", "any"):
            await found.admin.delete(f"/queue/{key}", params={"reason": "the test is over"})
        await asyncio.gather(*calls)


async def test_the_page_of_a_node_shows_attributes_and_warm_keys_of_its_slots(looker):
    await looker.go("nodes/rack")
    small = looker.page.locator("tr[data-id='small']")
    for text in ("vram=16", "features=mig", "warm: repo-42, repo-7"):
        await small.get_by_text(text, exact=True).wait_for()
    plain = looker.page.locator("tr[data-id='plain'] td")
    assert [text.strip() for text in await plain.all_inner_texts()][-1] == ""


async def test_the_queue_shows_what_a_ticket_wants_beyond_its_label(looker, stage):
    tickets = {
        each["runId"]: each["ticket"]
        for line in (await stage.admin.get("/queue")).json()["labels"]
        for each in line["tickets"]
    }
    for view in ("queue", f"pools/{LABEL}"):
        await looker.go(view)
        row = looker.page.locator(f"tr[data-id='{tickets['r1']}']").first
        await row.get_by_text(f"{LABEL} where vram >= 80 or lab:cpu", exact=True).wait_for()
    await looker.go("queue")
    plain = looker.page.locator(f"tr[data-id='{tickets['r2']}']").first
    await plain.wait_for()
    assert await plain.get_by_text("where").count() == 0


async def test_why_shows_attributes_as_tags_and_a_verdict_in_each_line(looker, stage):
    await looker.go("why/slot/small")
    for text in ("vram=16", "repo-42", f"1 waits for {LABEL} where vram >= 80: vram >= 80 fails"):
        await looker.page.get_by_text(text, exact=True).first.wait_for()
    await looker.go("why/ticket/big")
    for text in ("16", "40"):
        await looker.page.get_by_text(f"vram >= 80: 1 slot of {LABEL} has {text}", exact=True).wait_for()


async def test_a_slot_is_taken_by_what_it_must_have(window, stage):
    async with opened(window, stage, f"pools/{LABEL}") as (looker,):
        page = looker.page
        await page.get_by_label("Where").fill("  vram >= 40 ")
        await page.get_by_role("button", name="Take", exact=True).click()
        mine = page.locator(f"[data-wish='{LABEL}']")
        await mine.get_by_text("large").wait_for()
        assert [lease["browserId"] for lease in await leases(stage, LABEL)] == ["large"]
        await mine.get_by_role("button", name="Return mine").click()
        await mine.wait_for(state="detached")
        await page.get_by_label("Where").fill("vram >= 99")
        await page.get_by_role("button", name="Take", exact=True).click()
        await mine.get_by_text("where vram >= 99").wait_for()
        await mine.get_by_role("button", name="Give up").click()
        await mine.wait_for(state="detached")


async def test_a_where_that_cannot_be_read_is_answered_with_the_position(window, stage):
    async with opened(window, stage, f"pools/{LABEL}") as (looker,):
        page = looker.page
        await page.get_by_label("Where").fill("vram >=")
        await page.get_by_role("button", name="Take", exact=True).click()
        mine = page.locator(f"[data-wish='{LABEL}']")
        await mine.get_by_text("position 8").wait_for()
        await mine.get_by_role("button", name="Dismiss").click()
        await mine.wait_for(state="detached")
        looker.complaints.clear()  # the browser names each answer of 400

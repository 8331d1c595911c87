"""Bundles as the console shows them: leases that were lent together, and the line of those that wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
import pytest_asyncio

from tests.console.stage import Stage, staged
from tests.world import eventually

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]
LABEL = "lab:gpu"
SLOTS = [{"slotId": f"gpu-{n}", "label": LABEL, "attributes": {"vram": 40}} for n in range(1, 7)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(own_server) -> AsyncIterator[Stage]:
    """A hub that has lent a bundle of two, and in which a bundle and then another wait, and one who wants one slot."""
    async with staged(own_server, HUB_BUNDLE_PATIENCE_SECONDS="1") as found:
        node = {"nodeId": "rack", "slots": SLOTS, "policy": "reuse"}
        (await found.node.post("/node/register", json=node)).raise_for_status()
        lent = await found.runner.post("/bundles", json={"parts": [{"label": LABEL, "count": 2}], "runId": "r1"})
        lent.raise_for_status()
        large = {"parts": [{"label": LABEL, "where": "vram >= 40", "count": 6}], "sameNode": True, "name": "trainer"}
        mixed = {"parts": [{"label": LABEL, "count": 2}, {"label": "lab:cpu"}], "waitForPool": True}
        calls = []
        for key, path, body in (
            ("large", "/bundles", large),
            ("mixed", "/bundles", mixed),
            ("one", "/session/borrow", {"label": "lab:cpu"}),
        ):
            calls.append(asyncio.create_task(found.runner.post(path, json=body, headers={"idempotency-key": key})))
            await eventually(partial(waiting, found, len(calls)))

        async def reserves() -> bool:
            return bool((await queue(found))["bundles"][0]["setAside"] == 4)

        await eventually(reserves)
        found.bundle = lent.json()["bundle"]  # type: ignore[attr-defined]
        yield found
        for key in ("large", "mixed", "one"):
            await found.admin.delete(f"/queue/{key}", params={"reason": "the test is over"})
        await asyncio.gather(*calls)


async def queue(stage: Stage) -> dict[str, Any]:
    found: dict[str, Any] = (await stage.admin.get("/queue")).json()
    return found


async def waiting(stage: Stage, many: int) -> bool:
    return bool((await queue(stage))["waiting"] == many)


async def tickets(stage: Stage) -> list[str]:
    return [each["ticket"] for each in (await queue(stage))["bundles"]]


async def test_a_lease_is_shown_with_its_bundle(looker, stage):
    await looker.go("leases")
    assert await looker.page.get_by_text(f"bundle {stage.bundle}", exact=True).count() == 2
    await looker.go("why/slot/gpu-1")
    await looker.page.get_by_text(stage.bundle).first.wait_for()


async def test_the_queue_shows_bundles_with_what_they_want_and_what_is_set_aside(looker, stage):
    await looker.go("queue")
    page = looker.page
    await page.get_by_text("for 2 bundles;").wait_for()
    large, mixed = await tickets(stage)
    row = page.locator(f"tr[data-id='{large}']")
    await row.get_by_text(f"6 {LABEL} where vram >= 40, on one node", exact=True).wait_for()
    for text in ("4 of 6", "trainer"):
        await row.get_by_text(text, exact=True).wait_for()
    other = page.locator(f"tr[data-id='{mixed}']")
    await other.get_by_text(f"2 {LABEL} and 1 lab:cpu", exact=True).wait_for()
    await other.get_by_text("none", exact=True).wait_for()


async def test_a_label_shows_only_the_bundles_that_want_it(looker, stage):
    await looker.go("queue?label=lab:cpu")
    large, mixed = await tickets(stage)
    await looker.page.locator(f"tr[data-id='{mixed}']").wait_for()
    assert await looker.page.locator(f"tr[data-id='{large}']").count() == 0


async def test_why_shows_what_there_is_of_each_part_and_for_whom_slots_are_set_aside(looker, stage):
    large, mixed = await tickets(stage)
    await looker.go(f"why/ticket/{mixed}")
    await looker.page.get_by_text("1 lab:cpu: 0 free, 0 published", exact=True).wait_for()
    await looker.page.get_by_role("link", name=large).click()
    await looker.page.get_by_text("4 of 6 are set aside for it").wait_for()


async def test_a_bundle_that_waits_is_cancelled_on_the_page(looker, stage):
    await looker.go("queue")
    _, mixed = await tickets(stage)
    await looker.page.get_by_label(f"Cancel {mixed}").click()
    dialog = looker.page.get_by_role("dialog")
    await dialog.get_by_label("Reason").fill("not needed")
    await dialog.get_by_role("button", name="Cancel", exact=True).last.click()
    await looker.page.locator(f"tr[data-id='{mixed}']").wait_for(state="detached")
    assert len((await queue(stage))["bundles"]) == 1

"""Teams that share pools on the page: a link where there are rows, figures with bars, and recalled leases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.console.stage import Stage, staged
from tests.console.test_walk import barriers
from tests.world import eventually

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]
LABEL = "lab:gpu"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(own_server) -> AsyncIterator[Stage]:
    """A hub with three slots, which a team without a row holds."""
    async with staged(own_server) as found:
        await found.publish("rack", {f"gpu-{n}": LABEL for n in range(3)})
        for number in range(3):
            (await borrow(found, f"w{number}", "web")).raise_for_status()
        yield found


async def borrow(stage: Stage, user: str, team: str) -> Any:
    """Borrow for a team, with a token of its own."""
    wish = {"user": user, "team": team, "scopes": ["borrow"]}
    token = (await stage.admin.post("/admin/tokens", json=wish)).json()["token"]
    headers = {"x-hub-secret": token, "idempotency-key": user}
    return await stage.runner.post("/session/borrow", json={"label": LABEL, "runId": user}, headers=headers)


async def test_a_hub_without_rows_has_no_link_and_says_how_to_make_one(looker, stage):
    await looker.go("pools")
    views = looker.page.get_by_role("navigation", name="Views")
    await views.get_by_role("link", name="Usage").wait_for()
    assert await views.get_by_role("link", name="Teams").count() == 0
    await looker.go("teams")
    await looker.page.get_by_text("hub team set TEAM --label 'gpu:*' --guarantee 4").wait_for()


async def test_teams_are_shown_with_what_they_hold_are_due_wait_for_and_lose(looker, stage):
    row = {"label": "lab:*", "guarantee": 1, "ceiling": 2}
    (await stage.admin.put("/admin/teams/ml", json=row)).raise_for_status()
    waiter = asyncio.create_task(borrow(stage, "ann", "ml"))

    async def recalled() -> bool:
        teams = (await stage.admin.get("/teams")).json()["teams"]
        return sum(each["recalled"] for each in teams) == 1

    await eventually(recalled)
    await looker.go("pools")
    await looker.page.reload()
    await looker.page.get_by_role("link", name="Teams").click()
    await looker.page.get_by_role("heading", name="lab:*").wait_for()
    ml, web = (looker.page.locator(f"tr[data-id='{team}'] td") for team in ("ml", "web"))
    assert [await ml.nth(n).inner_text() for n in (1, 3, 4, 5, 6)] == ["0", "1", "0", "1", "2"]
    assert [await web.nth(n).inner_text() for n in (1, 3, 4)] == ["3", "0", "1"]
    bar = web.nth(0).get_by_role("img")
    assert "3 held of" in (await bar.get_attribute("aria-label"))
    assert "1 recalled" in (await bar.get_attribute("aria-label"))
    assert await barriers(looker.page) == {}
    await looker.go("leases")
    assert await looker.page.get_by_text("for a team below its guarantee").count() == 1
    tickets = (await stage.admin.get("/queue")).json()["labels"][0]["tickets"]
    await looker.go(f"why/ticket/{tickets[0]['ticket']}")
    await stage.admin.delete(f"/queue/{tickets[0]['ticket']}", params={"reason": "the test is over"})
    await waiter


async def test_a_guarantee_that_cannot_be_kept_is_named(looker, stage):
    (await stage.admin.put("/admin/teams/ml", json={"label": "lab:*", "guarantee": 9})).raise_for_status()
    await looker.go("teams")
    await looker.page.locator(".note").get_by_text("9").wait_for()

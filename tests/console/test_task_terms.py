"""What the console shows of the terms of a job, and of a task that they keep."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.console.stage import Stage, staged

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]
J, FULL = "/v1/joblib", "lab:modifiers:Train"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(own_server) -> AsyncIterator[Stage]:
    """A hub with a job that needs two slots and has a limit, and a task that waits for a slot."""
    async with staged(own_server) as found:
        body: dict[str, Any] = {"nodeId": "rack", "policy": "reuse", "slots": [{"slotId": "g1", "label": "lab:gpu"}]}
        (await found.node.post("/node/register", json=body)).raise_for_status()
        needs = [{"label": "lab:gpu", "where": "vram >= 40", "count": 2}]
        limits = [{"key": "customer", "running": 3}, {"rate": "100/m"}]
        body = {"category": "modifiers", "name": "Train", "needs": needs, "sameNode": True, "limits": limits}
        (await found.admin.put(f"{J}/rooms/lab/jobs", json=body)).raise_for_status()
        made = await found.admin.post(f"{J}/rooms/lab/tasks/{FULL}", json={"payload": {"customer": "acme"}})
        made.raise_for_status()
        yield found


async def test_a_job_shows_what_its_tasks_need_and_their_limits(looker, stage):
    await looker.go(f"jobs/{FULL}")
    await looker.page.get_by_text("2 lab:gpu where vram >= 40, on one node", exact=True).wait_for()
    await looker.page.get_by_text("3 running by customer, 100/m", exact=True).wait_for()


async def test_a_pending_task_shows_what_it_waits_for(looker, stage):
    await looker.go("tasks")
    await looker.page.locator("tbody button.link").click()
    text = "it needs lab:gpu where vram >= 40: 2 wanted, 0 free, 0 published; all on one node"
    await looker.page.get_by_text(text, exact=True).wait_for()

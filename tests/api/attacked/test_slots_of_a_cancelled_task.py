"""Slots of a task that is taken from its worker are lent to no other before the worker can have stopped."""

from __future__ import annotations

from tests.api.bundles import offer
from tests.api.jobs.test_slots import GPU, alice, api, claimed, serving  # noqa: F401


async def test_the_slots_of_a_task_that_is_cancelled_have_the_grace(api, alice):  # noqa: F811
    await offer(api, 1)
    worker = await serving(alice, {"label": GPU})
    task = await alice.task()
    await claimed(alice, worker)  # it runs
    assert (await alice.move(task, "cancelled")).status_code == 200
    answer = await api.post("/session/borrow", json={"labelKey": GPU, "maxWaitSeconds": 0})
    assert answer.status_code == 503, "lent to another while the worker, which was told this moment, works in it"

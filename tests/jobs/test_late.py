"""Calls that are carried out late: after the same call was answered elsewhere, or the task was claimed anew."""

from __future__ import annotations

import pytest

from hub.errors import InvalidTaskTransition
from hub.jobs.models import Claim, Options, Result
from tests.jobs.conftest import JOB, USER, worker_of

OTHER = "b" * 32


async def test_a_repeated_claim_that_got_nothing_gets_nothing_again(hub):
    worker = await worker_of(hub)
    assert await hub.claims.claim(worker, USER, Claim(request="K")) == []
    [task] = await hub.tasks.submit("r1", JOB, ["{}"], USER)
    assert await hub.claims.claim(worker, USER, Claim(request="K")) == [], "its caller went on without it"
    assert (await hub.tasks.get(task.id)).status == "pending"
    assert [found.id for found in await hub.claims.claim(worker, USER, Claim(request="L"))] == [task.id]


async def test_a_waiting_claim_with_a_key_gets_what_was_submitted_meanwhile(hub):
    worker = await worker_of(hub)
    assert await hub.claims.claim_or_wait(worker, USER, Claim(request="K"), 0.0) == []
    [task] = await hub.tasks.submit("r1", JOB, ["{}"], USER)
    assert [found.id for found in await hub.claims.claim(worker, USER, Claim(request="K"))] == [task.id]


async def test_a_waiting_claim_takes_nothing_once_its_caller_is_gone(hub):
    worker = await worker_of(hub)

    async def gone():
        await hub.tasks.submit("r1", JOB, ["{}"], USER)  # at the very moment
        return True

    assert await hub.claims.claim_or_wait(worker, USER, Claim(request="K"), 30.0, gone) == []
    assert (await hub.tasks.page_of_room("r1", "pending", 10, 0)).total == 1


async def test_a_late_repeat_of_a_claim_is_not_answered_with_a_later_claim(hub):
    worker = await worker_of(hub)
    await hub.tasks.submit("r1", JOB, ["{}"], USER)
    [first] = await hub.claims.claim(worker, USER, Claim(request="K"))
    await hub.tasks.finish(worker, USER, [Result(first.id, "pending", claim=first.claim)])
    [second] = await hub.claims.claim(worker, USER, Claim(request="L"))
    assert (second.id, int(second.claim) > int(first.claim)) == (first.id, True)
    assert await hub.claims.claim(worker, USER, Claim(request="K")) == []


async def claimed_again(hub):
    """Return a task that failed and runs again at the same worker: the worker, and the task as each claim gave it."""
    worker = await worker_of(hub)
    [task] = await hub.tasks.submit("r1", JOB, ["{}"], USER, Options(max_attempts=9, backoff_ms=0))
    [first] = await hub.claims.claim(worker, USER, Claim(start=True))
    assert await hub.tasks.finish(worker, USER, [Result(task.id, "failed", "oh", first.claim)], "R") == ["ok"]
    [second] = await hub.claims.claim(worker, USER, Claim(start=True))
    return worker, first, second


@pytest.mark.parametrize("status", ["failed", "completed", "cancelled", "pending", "running"])
async def test_a_report_on_an_earlier_claim_does_not_count_for_a_later_one(hub, status):
    worker, first, second = await claimed_again(hub)
    assert await hub.tasks.finish(worker, USER, [Result(first.id, status, "", first.claim)], "S") == ["conflict"]
    if status != "pending":
        with pytest.raises(InvalidTaskTransition):
            await hub.tasks.move(first.id, status, user=USER, claim=first.claim)
    assert await hub.tasks.get(second.id) == second


async def test_a_repeated_report_that_names_its_claim_is_recognised(hub):
    worker, first, _ = await claimed_again(hub)
    assert await hub.tasks.finish(worker, USER, [Result(first.id, "failed", "oh", first.claim)], "R") == ["ok"]
    assert (await hub.tasks.get(first.id)).attempt == 2


async def test_a_report_with_a_key_is_recognised_after_further_attempts(hub):
    worker, first, _ = await claimed_again(hub)
    for key in ("S", "T"):
        assert await hub.tasks.finish(worker, USER, [Result(first.id, "failed")], key) == ["ok"]
        await hub.claims.claim(worker, USER, Claim(start=True))
    for key in ("R", "S", "T"):
        assert await hub.tasks.finish(worker, USER, [Result(first.id, "failed")], key) == ["ok"]
        await hub.tasks.move(first.id, "failed", user=USER, request=key)
    found = await hub.tasks.get(first.id)
    assert (found.status, found.attempt) == ("running", 4)


async def test_a_report_on_an_old_claim_of_a_task_that_another_user_holds_by_now_is_a_conflict(hub):
    worker, other = await worker_of(hub), await worker_of(hub, user=OTHER)
    [task] = await hub.tasks.submit("r1", JOB, ["{}"], USER)
    [first] = await hub.claims.claim(worker, USER)
    await hub.tasks.finish(worker, USER, [Result(task.id, "pending", claim=first.claim)])
    await hub.claims.claim(other, OTHER, Claim(start=True))
    with pytest.raises(InvalidTaskTransition):
        await hub.tasks.move(task.id, "failed", user=USER, claim=first.claim)
    assert (await hub.tasks.get(task.id)).worker == other

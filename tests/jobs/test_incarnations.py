"""Two processes with the id of one worker: the last to register is the worker, and the other is told."""

from __future__ import annotations

import pytest

from hub.errors import Superseded
from hub.history.reading import History
from hub.history.why import why
from hub.jobs.models import Claim, JobRequest, Result

USER = "a" * 32
JOB = "r1:modifiers:A"


async def registered(hub, incarnation, worker=None):
    wanted = JobRequest("r1", "modifiers", "A", worker=worker, incarnation=incarnation)
    job, _ = await hub.jobs.register(wanted, {}, USER, superuser=False)
    return job.worker


async def test_the_process_that_registers_last_is_the_worker_and_the_older_one_is_told(hub):
    worker = await registered(hub, "old")
    await hub.tasks.submit("r1", JOB, ["{}"] * 2, USER)
    [held] = await hub.claims.claim(worker, USER, Claim(incarnation="old"))
    assert await registered(hub, "new", worker) == worker
    with pytest.raises(Superseded):
        await hub.claims.claim(worker, USER, Claim(incarnation="old"))
    with pytest.raises(Superseded):
        await hub.workers.compare(worker, USER, {}, [], "old")
    with pytest.raises(Superseded):
        await hub.workers.delete(worker, USER, superuser=False, incarnation="old")
    with pytest.raises(Superseded):
        await registered(hub, "old", worker)
    assert await hub.tasks.finish(worker, USER, [Result(held.id, "failed", "oh", held.claim)]) == ["ok"], "its own"
    assert len(await hub.claims.claim(worker, USER, Claim(incarnation="new"))) == 1
    await hub.workers.delete(worker, USER, superuser=False, incarnation="new")


async def test_a_worker_that_names_no_process_counts_as_the_latest(hub):
    worker = await registered(hub, "")
    assert await registered(hub, "new", worker) == await registered(hub, "", worker) == worker
    assert await hub.claims.claim(worker, USER) == []
    assert await hub.workers.compare(worker, USER, {}, []) == []
    await hub.workers.delete(worker, USER, superuser=False)


async def test_why_and_the_log_name_the_process_of_a_worker_and_whom_it_replaced(hub, caplog):
    await hub.clock.tick()
    worker = await registered(hub, "old")
    await registered(hub, "new", worker)
    await registered(hub, "new", worker)
    said = await why(hub, History(hub.store), "worker", worker, 50)
    assert said.now.facts["incarnation"] == "new"
    (taken,) = [each for each in said.past.events if each.what == "worker.superseded"]
    assert (taken.facts["incarnation"], taken.facts["before"]) == ("new", "old")
    assert "newer process" in taken.why
    told = [record.msg for record in caplog.records if record.msg["event"] == "worker process replaced"]
    assert [(each["worker"], each["incarnation"], each["before"]) for each in told] == [(worker, "new", "old")]

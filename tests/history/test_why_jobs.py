"""Why a task, a worker or a job is as it is: its state, what it was, and what happens next and when."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from redis import Redis

from hub.core import Hub
from hub.history.explained import Explanation
from hub.history.reading import History
from hub.history.why import why
from hub.jobs.dispatch import Dispatch
from hub.jobs.jobs import new_id
from hub.jobs.models import Claim, Options, Result
from hub.jobs.names import dashed, time_text
from tests.history.conftest import JOB, USER
from tests.world import SLACK_S

FAR_US = 4_000_000_000_000_000


async def submit(hub: Hub, **options: Any) -> str:
    (task,) = await hub.tasks.submit("one", JOB, ["{}"], USER, Options(**options))
    return task.id


async def explain(hub: Hub, kind: str, name: str) -> Explanation:
    found = await why(hub, History(hub.store), kind, name, 50)
    assert found.now.because.endswith(".")
    assert all(step.rule.endswith(".") for step in found.now.next)
    return found


def coming(found: Explanation) -> list[tuple[str, float | None]]:
    """Return the next steps of an explanation, and in how many whole seconds each comes."""
    return [(step.what, None if step.in_ms is None else round(step.in_ms / 1000)) for step in found.now.next]


async def test_why_of_a_pending_task_says_its_place_and_who_serves_its_job(hub, worker):
    await submit(hub)
    task = await submit(hub)
    found = await explain(hub, "task", task)
    assert (found.kind, found.id, found.now.state) == ("task", dashed(task), "pending")
    assert found.now.because == f"It is number 2 of 2 in the queue of {JOB}, which one worker serves."
    assert (found.now.facts["queuePosition"], found.now.facts["submittedBy"]) == (2, dashed(USER))
    assert coming(found) == [("task.claimed", None)]


async def test_why_of_a_pending_task_without_workers_says_that_it_waits_for_one(hub, worker):
    task = await submit(hub)
    await hub.workers.delete(worker, USER, superuser=False)
    found = await explain(hub, "task", task)
    assert found.now.because.endswith("which no worker serves.")
    assert "registers its job" in found.now.next[0].rule


async def test_why_of_a_delayed_task_says_until_when(hub, worker, redis):
    task = await submit(hub, due_us=FAR_US)
    found = await explain(hub, "task", task)
    assert found.now.because == f"It is put off until {time_text(FAR_US)}."
    seconds, micros = redis.time()
    assert coming(found) == [("task.queued", pytest.approx(FAR_US / 1e6 - seconds - micros / 1e6, abs=SLACK_S))]


async def test_why_of_a_task_between_two_attempts_says_when_the_next_begins(hub, worker):
    task = await submit(hub, max_attempts=3, backoff_ms=60_000)
    await hub.claims.claim(worker, USER, Claim(start=True))
    await hub.tasks.finish(worker, USER, [Result(task, "failed", "it broke")])
    found = await explain(hub, "task", task)
    assert found.now.because.endswith(": attempt 1 of 3 has failed.")
    assert coming(found) == [("task.queued", pytest.approx(60, abs=SLACK_S))]
    assert [event.what for event in found.past.events] == ["task.retried"]


async def test_why_of_a_running_task_says_which_worker_runs_it_and_until_when(hub, worker):
    task = await submit(hub, max_attempts=2)
    await hub.claims.claim(worker, USER, Claim(start=True, max_runtime_ms=20_000))
    found = await explain(hub, "task", task)
    assert found.now.state == "running"
    assert found.now.because.startswith(f"Worker {dashed(worker)} runs it since ")
    assert coming(found) == [("task.retried", pytest.approx(20, abs=2)), ("task.retried", pytest.approx(60, abs=2))]
    assert "attempt 2 of 2" in found.now.next[0].rule
    assert "HUB_WORKER_TIMEOUT_SECONDS" in found.now.next[1].rule


async def test_why_of_a_task_whose_worker_hung_up_says_that_it_ends_with_the_grace(hub, worker, redis):
    task = await submit(hub)
    await hub.claims.claim(worker, USER)
    redis.zadd("hub:hung_up", {worker: int(redis.hget("hub:store", "clock_ms")) + 5000})
    found = await explain(hub, "task", task)
    assert "has claimed it and not started yet" in found.now.because
    assert coming(found) == [("task.failed", pytest.approx(5, abs=1)), ("task.failed", pytest.approx(60, abs=2))]
    assert (await explain(hub, "worker", worker)).now.state == "hung up"


async def test_why_of_a_task_claimed_by_hand_says_when_it_ends(hub, worker):
    task = await submit(hub)
    await hub.tasks.move(task, "claimed", superuser=True)
    found = await explain(hub, "task", task)
    assert "no worker holds it" in found.now.because
    assert coming(found) == [("task.failed", pytest.approx(60, abs=2))]


async def test_why_of_an_internal_task_says_when_it_times_out(hub):
    await hub.clock.tick()
    await hub.jobs.ensure_internal("@internal:modifiers:i", {}, "{}")
    task = new_id()
    await Dispatch(hub.store).submit("one", "@internal:modifiers:i", "{}", USER, task)
    found = await explain(hub, "task", task)
    assert found.now.because == "An internal worker has claimed it and not started yet."
    assert coming(found) == [("task.failed", pytest.approx(3600, abs=2))]


@pytest.mark.parametrize(("status", "error"), [("completed", ""), ("failed", "it broke"), ("cancelled", "")])
async def test_why_of_an_ended_task_says_how_it_ended_and_how_long_it_is_kept(hub, worker, status, error):
    task = await submit(hub)
    await hub.claims.claim(worker, USER, Claim(start=True))
    await hub.tasks.finish(worker, USER, [Result(task, status, error)])
    found = await explain(hub, "task", task)
    assert found.now.state == status
    assert found.now.because == f"It ended at {found.now.facts['endedUtc']}" + (f": {error}." if error else ".")
    assert coming(found) == [("task.forgotten", pytest.approx(604_800, abs=SLACK_S))]


async def test_why_of_a_dead_letter_says_what_can_be_done(hub, worker):
    task = await submit(hub, max_attempts=2, backoff_ms=0)
    for _ in range(2):
        await hub.claims.claim(worker, USER, Claim(start=True))
        await hub.tasks.finish(worker, USER, [Result(task, "failed", "it broke")])
    found = await explain(hub, "task", task)
    assert found.now.facts["deadLetter"] is True
    assert "All of its 2 attempts are used up" in found.now.because
    assert "hub dead retry" in found.now.next[0].rule


async def test_why_of_a_worker_says_what_it_holds_and_what_its_silence_leads_to(hub, worker, redis):
    task = await submit(hub)
    await hub.claims.claim(worker, USER)
    found = await explain(hub, "worker", worker)
    assert (found.now.state, found.id) == ("alive", dashed(worker))
    assert (found.now.facts["jobs"], found.now.facts["tasks"]) == ([JOB], [dashed(task)])
    assert coming(found) == [("worker.gone", pytest.approx(60, abs=2))]
    assert "The task it holds then" in found.now.next[0].rule
    redis.zadd("hub:worker_beats", {worker: -3_600_000})
    redis.hset("hub:worker_brake", "state", "engaged")
    stale = await explain(hub, "worker", worker)
    assert (stale.now.state, coming(stale)) == ("stale", [("worker.gone", 0)])
    assert "The brake is engaged" in stale.now.next[0].rule


async def test_why_of_a_removed_worker_tells_what_happened(hub, worker):
    await hub.workers.delete(worker, USER, superuser=False)
    found = await explain(hub, "worker", worker)
    assert (found.now.state, found.now.next) == ("gone", ())
    assert "removed it" in found.now.because


async def test_why_of_a_job_says_who_serves_it_and_when_it_is_removed(hub, worker):
    task = await submit(hub)
    served = await explain(hub, "job", JOB)
    assert (served.now.state, served.now.facts["workers"], served.now.facts["waiting"]) == ("active", 1, 1)
    await hub.workers.delete(worker, USER, superuser=False)
    waiting = await explain(hub, "job", JOB)
    assert waiting.now.because == "No worker serves it; a task that waits keeps it."
    await hub.tasks.move(task, "claimed", superuser=True)
    assert "some are claimed" in (await explain(hub, "job", JOB)).now.because
    await hub.tasks.move(task, "cancelled", user=USER)
    deleted = await explain(hub, "job", JOB)
    assert deleted.now.state == "deleted"
    assert [event.what for event in deleted.past.events] == ["job.orphaned"]
    assert coming(deleted) == [("job.registered", None), ("job.forgotten", None)]


async def test_why_over_http_takes_ids_in_any_spelling_and_names_with_slashes(
    api: httpx.AsyncClient, redis: Redis
) -> None:
    wanted = {"category": "modifiers", "name": "a/b:c", "schema": {}}
    job = (await api.put("/v1/joblib/rooms/one/jobs", json=wanted)).json()
    task = (await api.post(f"/v1/joblib/rooms/one/tasks/{job['full_name']}", json={"payload": {}})).json()
    for spelling in (task["id"], task["id"].upper(), task["id"].replace("-", "")):
        found = (await api.get(f"/why/task/{spelling}")).json()
        assert (found["kind"], found["id"], found["state"]) == ("task", task["id"], "pending")
    assert (await api.get(f"/why/worker/{job['worker_id']}")).json()["facts"]["jobs"] == [job["full_name"]]
    assert (await api.get(f"/why/job/{job['full_name']}")).json()["state"] == "active"
    for kind, name in (("task", "one"), ("worker", new_id()), ("job", "one"), ("task", new_id())):
        answer = await api.get(f"/why/{kind}/{name}")
        assert (answer.status_code, answer.json()["code"]) == (404, "not-found")
    assert (await api.get("/history", params={"task": "one"})).json()["member"] == "task"
    assert (await api.get("/history", params={"task": task["id"], "kind": "task"})).json()["events"] == []


async def test_why_of_a_dependent_task_names_its_parents_and_why_of_a_parent_names_it(hub, worker):
    first, second = await submit(hub), await submit(hub)
    task = await submit(hub, after=(first, second))
    await hub.claims.claim(worker, USER, Claim(start=True))
    found = await explain(hub, "task", task)
    states = {first: "running", second: "pending"}
    named = " and ".join(f"{dashed(each)} ({states[each]})" for each in sorted(states))
    assert (found.now.state, found.now.because) == ("pending", f"It waits for 2 tasks: {named}.")
    assert found.now.facts["waitsFor"] == [
        {"task": dashed(each), "job": JOB, "status": states[each]} for each in sorted(states)
    ]
    assert coming(found) == [("task.queued", None)]
    assert "It fails as well" in found.now.next[0].rule
    waits = {"task": dashed(task), "job": JOB, "status": "pending"}
    assert (await explain(hub, "task", first)).now.facts["waitedForBy"] == [waits]
    await hub.tasks.finish(worker, USER, [Result(first, "completed")])
    assert f"a task: {dashed(second)} (pending)." in (await explain(hub, "task", task)).now.because
    await hub.tasks.move(task, "cancelled", superuser=True)
    assert (await explain(hub, "task", second)).now.facts["waitedForBy"] == []


async def test_why_of_a_task_with_very_many_parents_says_their_number(hub, worker):
    parents = tuple([await submit(hub) for _ in range(5)])
    task = await submit(hub, after=parents, run_on_failure=True, due_us=FAR_US)
    found = await explain(hub, "task", task)
    assert found.now.because.startswith("It waits for 5 tasks: ")
    assert found.now.because.endswith(f" and 2 more, and is put off until {time_text(FAR_US)}.")
    assert "whatever came of them" in found.now.next[0].rule

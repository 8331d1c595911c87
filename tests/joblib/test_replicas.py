"""Two hubs on one Redis are one: each call of a story goes to another of them."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.joblib.people import LONGEST_S, done, empty, fresh, problem
from tests.joblib.stage import QUICK, stage
from tests.world import eventually, wait_until


@pytest.mark.parametrize("first", [0, 1])
def test_a_task_can_be_submitted_claimed_and_awaited_at_three_different_calls(hubs, alice, bob, full, room, first):
    here, there = alice.at(first), alice.at(1 - first)
    worker = here.job(room)
    task = bob.at(1 - first).submit(full)
    with ThreadPoolExecutor(2) as pool:
        looks = [pool.submit(bob.at(hub).get, f"/tasks/{task}", prefer=f"wait={LONGEST_S}") for hub in (0, 1)]
        hubs.waiting(task, 2)
        assert there.claim(worker)["id"] == task
        done(here.move(task, "running"), 200)
        ended = done(there.move(task, "completed"), 200)
        assert [done(look.result(), 200) for look in looks] == [ended, ended]
    assert here.listed(f"/rooms/{room}/tasks") == there.listed(f"/rooms/{room}/tasks") == [ended]
    empty(here.leave(worker))
    problem(there.beat(worker), 404, "worker-not-found")
    problem(there.get(f"/rooms/{room}/jobs/{full}"), 404, "job-not-found")


def test_a_write_at_one_hub_is_read_at_the_other_at_once(alice, room):
    for number in range(20):
        one, other = alice.at(number % 2), alice.at(1 - number % 2)
        worker = one.job(room, f"n{number}")
        assert done(other.get(f"/rooms/{room}/jobs/{room}:modifiers:n{number}"), 200)["workers"] == [worker]
        first = done(one.beat(worker), 200)["last_heartbeat"]
        assert done(other.beat(worker), 200)["last_heartbeat"] > first
        empty(other.leave(worker))
        assert one.beat(worker).status_code == 404


async def test_events_of_one_hub_reach_clients_of_the_other(listen, alice, full, room):
    worker = alice.job(room)
    here, there = await listen(room, hub=0), await listen(room, hub=1)
    await here.offer(full, worker)
    await there.offer(full, worker)
    alice.at(0).submit(full)
    alice.at(1).submit(full)
    assert alice.at(0).claim(worker)
    told = await here.heard()
    assert sorted(event for event, _ in told) == ["task_available"] * 2 + ["task_status_event"] * 3
    assert await there.heard() == told


async def test_a_read_at_one_hub_is_answered_by_a_provider_at_the_other(listen, alice, bob, room):
    made = alice.provider(room)
    serving = await listen(hub=1)
    await serving.serve(made["full_name"], made["worker_id"])
    for number in range(2):
        read = bob.at(0).read, room, made["full_name"], f"q={number}", f"wait={LONGEST_S}"
        asked = asyncio.create_task(asyncio.to_thread(*read))
        await eventually(lambda: any(event == "provider_request" for event, _ in serving.told))
        ((_, request),) = [each for each in await serving.heard() if each[0] == "provider_request"]
        empty(alice.at(number).upload(made["id"], request["request_id"], b"%d" % number))
        assert (await asked).content == b"%d" % number
        assert await serving.heard() == []


def test_concurrent_claims_at_both_hubs_get_each_task_once(alice, full, room):
    workers = [alice.job(room) for _ in range(8)]
    tasks = done(alice.send(room, full, {"payloads": [{}] * 60}), 202)["ids"]

    def drain(worker):
        found = []
        while task := alice.claim(worker):
            found.append(task["id"])
        return found

    with ThreadPoolExecutor(8) as pool:
        given = [task for found in pool.map(drain, workers) for task in found]
    assert sorted(given) == sorted(tasks)


def test_when_a_hub_crashes_the_other_hears_its_workers_and_removes_silent_ones(http):
    with stage(http, 2, **QUICK) as pair:
        ann = pair.person("alice-t").at(0)
        beating, kept = ann.claimed(f"{fresh()}:modifiers:Rotate")
        _, lost = ann.claimed(f"{fresh()}:modifiers:Rotate")
        pair.hubs[0].kill()
        ann = pair.person("alice-t").at(1)

        def over():
            assert ann.beat(beating).status_code == 200
            return ann.look(lost)["error"] == "Worker disconnected"

        wait_until(over)
        assert ann.look(kept)["status"] == "claimed"

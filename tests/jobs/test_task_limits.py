"""Limits of jobs, where they change, where tasks come back, and where values are odd."""

from __future__ import annotations

import asyncio
import time

import orjson
import pytest

from hub.errors import HubError
from hub.jobs.models import Claim
from tests.jobs.terms import JOB, USER, claim, claimed, report, serving, submit, sweep


def of(value):
    return orjson.dumps({"customer": value}).decode()


BY_CUSTOMER = [{"key": "customer", "running": 1}]


async def later(hub):
    return int(await hub.store.read("HGET", hub.store.keys.job(JOB), "later") or 0)


async def wait_ms(hub, ms):
    await hub.store.client.hincrby(hub.store.keys.store, "clock_ms", ms)


async def cancel(hub, task):
    await hub.tasks.move(task, "cancelled", user=USER)


async def test_a_task_that_a_superuser_takes_out_leaves_its_room_to_the_next(hub):
    worker = await serving(hub, limits=BY_CUSTOMER)
    first, second = await submit(hub, 2, payload=of("a"))
    try:
        await hub.tasks.move(first, "claimed", user=USER, superuser=True)
    except HubError:
        await cancel(hub, first)
    else:
        assert await claimed(hub, worker) == []  # it counts: a worker has it
        await hub.tasks.move(first, "failed", user=USER, superuser=True)
    assert await claimed(hub, worker) == [second]


async def test_a_held_task_of_higher_priority_goes_first(hub):
    worker = await serving(hub, limits=BY_CUSTOMER)
    first, second = await submit(hub, 2, payload=of("a"))
    (task,) = await claim(hub, worker)
    (urgent,) = await submit(hub, payload=of("a"), priority=100)
    assert task.id == first
    await report(hub, worker, task)
    assert await claimed(hub, worker) == [urgent]
    assert second


async def test_a_task_of_higher_priority_goes_before_one_that_has_not_started(hub):
    worker = await serving(hub, limits=BY_CUSTOMER)
    await submit(hub, payload=of("a"))
    (urgent,) = await submit(hub, payload=of("a"), priority=100)
    assert await claimed(hub, worker) == [urgent]


async def test_a_task_that_was_given_back_goes_before_younger_ones(hub):
    worker = await serving(hub, limits=BY_CUSTOMER)
    first, second = await submit(hub, 2, payload=of("a"))
    (task,) = await claim(hub, worker)
    await report(hub, worker, task, "pending")
    assert await claimed(hub, worker) == [first]
    assert second


async def test_a_pause_before_the_next_attempt_leaves_room_to_others(hub):
    worker = await serving(hub, limits=BY_CUSTOMER)
    first, second = await submit(hub, 2, payload=of("a"), max_attempts=2, backoff_ms=3_600_000)
    (task,) = await claim(hub, worker)
    await report(hub, worker, task, "failed")
    assert await claimed(hub, worker) == [second]
    assert await later(hub) == 1
    assert first


async def test_older_tasks_stay_before_younger_ones_when_limits_come(hub):
    worker = await serving(hub)
    first, second = await submit(hub, 2, payload=of("a"))
    await serving(hub, worker=worker, limits=BY_CUSTOMER)
    (third,) = await submit(hub, payload=of("a"))
    got = []
    for _ in range(3):
        (task,) = await claim(hub, worker)
        got.append(task.id)
        await report(hub, worker, task)
    assert got == [first, second, third]


async def test_a_claim_of_many_jobs_looks_on_where_new_limits_keep_the_oldest(hub):
    worker, busy = await serving(hub), await serving(hub)
    await submit(hub, 5, payload=of("a"))
    await claim(hub, busy)
    for name in "BCD":
        await serving(hub, name=name, worker=worker)
    await serving(hub, worker=worker, limits=BY_CUSTOMER)
    (other,) = await submit(hub, name="D")
    assert await claimed(hub, worker, 1) == [other]


async def test_a_claim_that_waits_looks_on_where_new_limits_keep_all(hub):
    """201 tasks are more than one call looks at."""
    worker, busy = await serving(hub), await serving(hub)
    await submit(hub, 1, payload=of("a"))
    await claim(hub, busy)
    await submit(hub, 450, payload=of("a"))
    (other,) = await submit(hub, payload=of("b"))
    await serving(hub, worker=worker, limits=BY_CUSTOMER)
    assert await claimed(hub, worker, 1) == [other]
    assert await later(hub) == 450


async def test_a_rate_forgets_the_values_that_count_no_longer(hub):
    worker = await serving(hub, limits=[{"key": "customer", "count": 3, "per_ms": 1000}])
    await submit(hub, payload=of("a"))
    (task,) = await claim(hub, worker)
    await report(hub, worker, task)
    await wait_ms(hub, 5000)
    await sweep(hub)
    keys = hub.store.keys
    assert await hub.store.read("SMEMBERS", keys.limit_groups(JOB)) in ([], set())
    assert await hub.store.read("EXISTS", keys.limits_due) == 0


async def test_a_rate_counts_on_when_another_limit_changes(hub):
    rate = {"count": 2, "per_ms": 60_000}
    worker = await serving(hub, limits=[rate])
    await submit(hub, 6)
    assert len(await claimed(hub, worker)) == 2
    await serving(hub, worker=worker, limits=[rate, {"running": 50}])
    assert await claimed(hub, worker) == []


async def test_a_rate_lets_the_next_tasks_start_when_its_time_is_over(hub):
    worker = await serving(hub, limits=[{"count": 2, "per_ms": 100_000}])
    tasks = await submit(hub, 5)
    assert await claimed(hub, worker) == tasks[:2]
    await wait_ms(hub, 90_000)
    assert await claimed(hub, worker) == []
    await wait_ms(hub, 10_000)
    assert await claimed(hub, worker) == tasks[2:4]


async def test_a_claim_that_waits_gets_its_task_when_the_time_of_a_rate_is_over(hub):
    worker = await serving(hub, limits=[{"count": 1, "per_ms": 1000}])
    _, second = await submit(hub, 2)
    await claim(hub, worker)
    waiting = asyncio.create_task(hub.claims.claim_or_wait(worker, USER, Claim(start=True), 20.0))
    await asyncio.sleep(0)
    await wait_ms(hub, 1000)
    await sweep(hub)
    (task,) = await waiting
    assert task.id == second


@pytest.mark.parametrize("end", ["cancelled", "claimed and cancelled", "completed", "silent", "removed"])
async def test_room_is_given_on_however_the_task_ends(hub, end):
    worker, other = await serving(hub, limits=BY_CUSTOMER), await serving(hub, limits=BY_CUSTOMER)
    first, second = await submit(hub, 2, payload=of("a"))
    if end == "cancelled":
        await cancel(hub, first)
    else:
        (task,) = await claim(hub, other)
        if end == "removed":
            await hub.workers.delete(other, USER, superuser=False)
        elif end == "completed":
            await report(hub, other, task)
        else:
            await cancel(hub, first)
    assert await claimed(hub, worker) == [second]
    assert await later(hub) == 0


async def test_a_task_counts_in_none_of_its_groups_while_one_keeps_it(hub):
    limits = [{"key": "customer", "running": 2}, {"key": "model", "running": 1}]
    worker = await serving(hub, limits=limits)
    one, two = (orjson.dumps({"customer": "a", "model": model}).decode() for model in "xy")
    first, second = await submit(hub, 2, payload=one)
    (third,) = await submit(hub, payload=two)
    assert await claimed(hub, worker) == [first, third]
    await cancel(hub, first)
    assert await claimed(hub, worker) == [second]


async def test_tasks_that_wait_for_two_limits_go_on_when_the_second_has_room(hub):
    limits = [{"key": "customer", "running": 1}, {"running": 2}]
    worker = await serving(hub, limits=limits)
    a = await submit(hub, 3, payload=of("a"))
    b = await submit(hub, 3, payload=of("b"))
    c = await submit(hub, 3, payload=of("c"))
    got = []
    for _ in range(20):
        found = await claim(hub, worker, 100)
        assert len(found) <= 2
        got += [task.id for task in found]
        for task in found:
            await report(hub, worker, task)
    assert sorted(got) == sorted([*a, *b, *c])
    assert await later(hub) == 0


@pytest.mark.parametrize(
    "value", ["ä" * 150, "x" + "€" * 100, "\U0001f600" * 60, "a\tb:1\n", "", "x" * 5000, 2**53 + 1]
)
async def test_odd_values_are_values(hub, value):
    worker = await serving(hub, limits=BY_CUSTOMER)
    first, second = await submit(hub, 2, payload=of(value))
    assert await claimed(hub, worker) == [first]
    group = await hub.store.read("HGET", hub.store.keys.task(second), "limited")
    assert group.startswith(f"{len(JOB)}\t{JOB}\t")
    assert len(await hub.store.read("SMEMBERS", hub.store.keys.limited(JOB))) == 1
    await cancel(hub, first)
    assert await claimed(hub, worker) == [second]


@pytest.mark.parametrize(("one", "other"), [
    ("x" * 200 + "a", "x" * 200 + "b"), (2**53, 2**53 + 1), ("a", "A"), ("", " "),
])  # fmt: skip
async def test_different_values_are_different_groups(hub, one, other):
    worker = await serving(hub, limits=BY_CUSTOMER)
    tasks = [*await submit(hub, payload=of(one)), *await submit(hub, payload=of(other))]
    assert await claimed(hub, worker) == tasks


@pytest.mark.parametrize("payload", ["{}", "[]", '"text"', "17", "null", '{"customer":null}', '{"customer":{"a":1}}',
                                     '{"customer":[1]}', '{"x":' + "[" * 900 + "]" * 900 + "}"])  # fmt: skip
async def test_payloads_without_a_value_are_one_group(hub, payload):
    worker = await serving(hub, limits=BY_CUSTOMER)
    first, second = [*await submit(hub, payload="{}"), *await submit(hub, payload=payload)]
    assert await claimed(hub, worker) == [first]
    await cancel(hub, first)
    assert await claimed(hub, worker) == [second]


async def test_a_number_is_named_as_it_was_written(hub):
    await serving(hub, limits=BY_CUSTOMER)
    _, second = await submit(hub, 2, payload=of(0.1))
    assert (await hub.store.read("HGET", hub.store.keys.task(second), "limited")).endswith(":0.1")


async def test_limits_that_come_back_as_they_were_change_nothing(hub):
    worker = await serving(hub, limits=BY_CUSTOMER)
    first, second, third = await submit(hub, 3, payload=of("a"))
    assert await claimed(hub, worker) == [first]
    await serving(hub, worker=worker)
    await serving(hub, worker=worker, limits=BY_CUSTOMER)
    assert await claimed(hub, worker) == []
    assert await later(hub) == 2
    await cancel(hub, second)
    await cancel(hub, first)
    assert await later(hub) == 0
    assert await claimed(hub, worker) == [third]


async def test_a_task_that_is_kept_no_longer_says_so(hub):
    worker = await serving(hub, limits=BY_CUSTOMER)
    _, second = await submit(hub, 2, payload=of("a"))
    await serving(hub, worker=worker)
    assert await hub.store.read("HGET", hub.store.keys.task(second), "limited") is None
    assert worker


async def test_a_job_of_which_all_tasks_are_kept_stays_when_its_workers_go(hub):
    worker = await serving(hub, limits=BY_CUSTOMER)
    first, second = await submit(hub, 2, payload=of("a"))
    assert await claimed(hub, worker) == [first]
    await hub.workers.delete(worker, USER, superuser=False)
    again = await serving(hub, limits=BY_CUSTOMER)
    assert await claimed(hub, again) == [second]


async def test_a_job_that_comes_back_counts_what_still_runs(hub):
    worker = await serving(hub, limits=BY_CUSTOMER)
    (first,) = await submit(hub, payload=of("a"))
    (task,) = await claim(hub, worker)
    await serving(hub, name="B", worker=worker)
    other = await serving(hub, limits=BY_CUSTOMER)
    (second,) = await submit(hub, payload=of("a"))
    assert await claimed(hub, other) == []
    await report(hub, worker, task)
    assert await claimed(hub, other) == [second]
    assert first


async def test_a_task_that_waits_for_another_is_kept_when_that_ends(hub):
    worker = await serving(hub, limits=BY_CUSTOMER)
    await serving(hub, name="B", worker=worker)
    (parent,) = await submit(hub, name="B")
    (first,) = await submit(hub, payload=of("a"))
    (child,) = await submit(hub, payload=of("a"), after=(parent,))
    for task in await claim(hub, worker, 9):
        if task.id == parent:
            await report(hub, worker, task)
    assert await claimed(hub, worker) == []
    assert await later(hub) == 1
    await cancel(hub, first)
    assert await claimed(hub, worker) == [child]


async def test_a_kept_task_that_is_cancelled_fails_its_children(hub):
    await serving(hub, limits=BY_CUSTOMER)
    _, second = await submit(hub, 2, payload=of("a"))
    (child,) = await submit(hub, payload=of("a"), after=(second,))
    await cancel(hub, second)
    assert (await hub.tasks.get(child)).status == "failed"
    assert await later(hub) == 0


async def test_a_kept_task_stands_for_its_unique_key(hub):
    worker = await serving(hub, limits=BY_CUSTOMER)
    await submit(hub, payload=of("a"))
    (second,) = await submit(hub, payload=of("a"), unique_key="k")
    assert await submit(hub, payload=of("a"), unique_key="k") == [second]
    assert await later(hub) == 1
    assert worker


async def test_a_task_that_is_due_is_kept_and_counted_once(hub):
    await serving(hub, limits=BY_CUSTOMER)
    await submit(hub, payload=of("a"))
    (second,) = await submit(hub, payload=of("a"), due_us=4 * 10**15)
    assert await later(hub) == 1
    await hub.store.client.zadd(hub.store.keys.later, {second: 1})
    await sweep(hub)
    assert await later(hub) == 1


async def test_new_limits_for_many_values_are_taken_in_a_moment(hub):
    """The time follows the tasks, not the tasks times the values."""
    worker = await serving(hub, limits=BY_CUSTOMER)
    for value in range(300):
        await submit(hub, 4, payload=of(value))
    keys, redis = hub.store.keys, hub.store.client
    waiting = {f"{n:032x}": n for n in range(60_000)}
    await redis.zadd(keys.job_queue(JOB), waiting)
    started = time.monotonic()
    await serving(hub, worker=worker, limits=[{"key": "customer", "running": 2}])
    assert time.monotonic() - started < 2.0


async def test_a_task_that_makes_way_leaves_its_other_rooms_to_the_next(hub):
    worker = await serving(hub, limits=[{"key": "c", "running": 1}, {"key": "d", "running": 1}])
    (first,) = await submit(hub, payload='{"c":"a","d":"x"}')
    (second,) = await submit(hub, payload='{"c":"b","d":"x"}')
    (urgent,) = await submit(hub, payload='{"c":"a","d":"y"}', priority=100)
    assert await claimed(hub, worker) == [urgent, second]
    await cancel(hub, urgent)
    await cancel(hub, second)
    assert await claimed(hub, worker) == [first]


async def test_a_claim_that_waits_hears_of_the_task_for_which_another_made_way(hub):
    await serving(hub, limits=[{"key": "c", "running": 1}, {"key": "d", "running": 1}])
    await submit(hub, payload='{"c":"a","d":"x"}')
    (second,) = await submit(hub, payload='{"c":"b","d":"x"}')
    await submit(hub, payload='{"c":"a","d":"y"}', priority=100)
    assert await hub.store.read("ZSCORE", hub.store.keys.job_queue(JOB), second) is not None


@pytest.mark.parametrize("limits", [
    [{"key": "customer", "running": 5}, {"key": "customer", "running": 1}],
    [{"key": "customer", "count": 50, "per_ms": 1000}, {"key": "customer", "count": 1, "per_ms": 1000}],
])  # fmt: skip
async def test_of_two_limits_on_the_same_the_narrower_counts(hub, limits):
    worker = await serving(hub, limits=limits)
    first, second, third = await submit(hub, 3, payload=of("a"))
    assert await claimed(hub, worker) == [first]
    await cancel(hub, first)
    await wait_ms(hub, 2000)
    assert await claimed(hub, worker) == [second]
    await cancel(hub, second)
    await wait_ms(hub, 2000)
    assert await claimed(hub, worker) == [third]


async def test_a_task_that_another_program_queued_is_counted_once(hub):
    """As a hub of an earlier version does, which knows no limits."""
    worker = await serving(hub, limits=BY_CUSTOMER)
    (first,) = await submit(hub, payload=of("a"))
    keys = hub.store.keys
    await hub.store.client.delete(keys.limit_taken((await hub.store.read("SMEMBERS", keys.limit_groups(JOB))).pop()))
    (second,) = await submit(hub, payload=of("a"))
    assert await claimed(hub, worker) == [first]
    assert await later(hub) == 1
    await cancel(hub, first)
    assert await claimed(hub, worker) == [second]
    assert await later(hub) == 0


async def test_limits_that_change_twice_at_once_count_nothing_that_has_ended(hub):
    worker = await serving(hub, limits=BY_CUSTOMER)
    first, second, *_ = await submit(hub, 1_600, payload=of("a"))  # more than one call moves
    (task,) = await claim(hub, worker)
    await serving(hub, worker=worker, limits=[{"running": 5}])
    await report(hub, worker, task)
    await serving(hub, worker=worker, limits=BY_CUSTOMER)
    assert await claimed(hub, worker) == [second]
    assert first


async def test_limits_that_change_twice_at_once_count_what_has_started(hub):
    worker = await serving(hub, limits=BY_CUSTOMER)
    first, second = await submit(hub, 2, payload=of("a"))
    await serving(hub, worker=worker)
    assert await claimed(hub, worker, 1) == [first]
    await serving(hub, worker=worker, limits=BY_CUSTOMER)
    assert await claimed(hub, worker) == []
    await cancel(hub, first)
    assert await claimed(hub, worker) == [second]

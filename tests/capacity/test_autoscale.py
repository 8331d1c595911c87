"""The demand that an autoscaler is told: the leases, and the live waiters that more slots of the pool would serve."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from redis import Redis

from tests.world import SLACK_S, borrow, eventually, give_back, picture, publish

POOL = "gpu:a100:eu"


class Queue:
    """Borrowers that wait at one hub, each for a run of its own."""

    def __init__(self, api: httpx.AsyncClient, redis: Redis) -> None:
        self.api = api
        self._redis = redis
        self._runs = itertools.count()
        self.tasks: list[asyncio.Task[httpx.Response]] = []

    async def wait(self, label: str, count: int = 1, **more: Any) -> None:
        """Let so many more borrows wait for a label."""
        before = self._redis.zcard(f"hub:line:{label}")
        runs = [f"q{next(self._runs)}" for _ in range(count)]
        self.tasks += [asyncio.create_task(borrow(self.api, label, run=run, **more)) for run in runs]
        await eventually(lambda: self._redis.zcard(f"hub:line:{label}") == before + count)

    async def ask(self, label: str = POOL, **query: Any) -> dict[str, Any]:
        """Return the answer for an autoscaler."""
        answer = await self.api.get(f"/autoscale/{label}", params=query)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def demand(self, label: str = POOL) -> tuple[int, int]:
        """(waiting, labels they wait for)."""
        found = await self.ask(label)
        return found["waiting"], found["waitingLabels"]

    async def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


@pytest.fixture
async def make_queue(make_api, redis) -> AsyncIterator[Any]:
    """Queues of hubs with settings of one's own."""
    made: list[tuple[Queue, Any]] = []

    async def make(**changes: Any) -> Queue:
        context = make_api(**{"borrow_queue_timeout_s": 50, **changes})
        queue = Queue(await context.__aenter__(), redis)
        made.append((queue, context))
        return queue

    yield make
    for queue, context in made:
        await queue.close()
        await context.__aexit__(None, None, None)


@pytest.fixture
async def queue(make_queue) -> Queue:
    """A queue of a hub with the default settings."""
    found: Queue = await make_queue()
    return found


async def test_the_wanted_number_of_slots_is_the_leases_and_the_waiters_of_a_pool(queue, redis):
    await publish(queue.api, "n1", **{POOL: ["s1", "s2"]})
    await publish(queue.api, "n2", **{POOL: ["t1"]})
    assert await queue.ask() == {
        "label": POOL, "held": 0, "free": 3, "heldBack": 0, "total": 3, "waiting": 0, "waitingLabels": 0, "desired": 0,
        "maintenanceActive": False, "truncated": False,
    }  # fmt: skip
    await queue.api.post("/admin/nodes/n2/drain")
    for _ in range(2):
        assert (await borrow(queue.api, POOL)).status_code == 200
    await queue.wait(POOL, 3)
    assert await queue.ask() == {
        "label": POOL, "held": 2, "free": 0, "heldBack": 1, "total": 3, "waiting": 3, "waitingLabels": 1, "desired": 5,
        "maintenanceActive": False, "truncated": False, "heldBackBy": {"draining": 1},
    }  # fmt: skip
    await give_back(queue.api, POOL, "s1")
    found = await queue.ask()
    assert (found["held"], found["waiting"], found["desired"]) == (2, 2, 4)


async def test_a_pool_without_slots_can_be_scaled_up_from_nothing(queue):
    await queue.wait(POOL, 2)
    found = await queue.ask()
    assert (found["total"], found["waiting"], found["desired"]) == (0, 2, 2)


@pytest.mark.parametrize(
    ("query", "desired"),
    [
        ({}, 3), ({"headroom": 2}, 5), ({"min": 10}, 10), ({"max": 2}, 2), ({"max": 0}, 0), ({"min": 1, "max": 9}, 3),
        ({"min": 4, "max": 4}, 4), ({"headroom": 5, "max": 6}, 6),
    ],
    ids=str,
)  # fmt: skip
async def test_the_wanted_number_stays_within_bounds_and_may_include_spare_slots(queue, query, desired):
    await publish(queue.api, "n1", **{POOL: ["s1"]})
    await borrow(queue.api, POOL)
    await queue.wait(POOL, 2)
    assert (await queue.ask(**query))["desired"] == desired


@pytest.mark.parametrize("query", ["min=x", "max=-1", "headroom=1.5", "min=1000001", "min=2&max=1", "max="])
async def test_impossible_bounds_are_refused_by_their_name(api, query):
    answer = await api.get(f"/autoscale/{POOL}?{query}")
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid-value")
    assert answer.json()["detail"].startswith(query.split("=")[0])


async def test_an_invalid_label_is_refused(api):
    assert (await api.get("/autoscale/gpu")).json()["code"] == "invalid-label"
    assert (await api.get("/autoscale/gpu%3Aa100%20")).json()["label"] == "gpu:a100"


# Requested label -> whether a slot of gpu:a100:eu would serve it, by default and with one rule changed.
SERVES = {
    "gpu:a100:eu": {"", "no fallback", "no expansion", "wildcards"},
    "gpu:a100:eu:rack7": {"", "no expansion", "wildcards"},
    "gpu:a100:eu:rack7:top": {"", "no expansion", "wildcards"},
    "gpu:a100": {"", "no fallback", "wildcards"},
    "gpu:a100:us": set(),
    "gpu:a100:eu2": set(),
    "gpu:h100": set(),
    "gpu:*": {"wildcards"},
    "*:a100:eu": {"wildcards"},
    "gpu:*:eu:rack7": {"wildcards"},
    "gpu:a100:*": {"wildcards"},
    "gpu:*:us": set(),
}
RULES = {
    "": {},
    "no fallback": {"borrow_trailing_fallback": False},
    "no expansion": {"borrow_prefix_expand": False},
    "wildcards": {"borrow_wildcards": True},
}


@pytest.mark.parametrize("rule", RULES)
async def test_only_waiters_that_the_pool_would_serve_count_as_its_demand(make_queue, rule):
    queue = await make_queue(**RULES[rule])
    for label in SERVES:
        await queue.wait(label)
    served = {label for label, rules in SERVES.items() if rule in rules}
    assert await queue.demand() == (len(served), len(served))
    await publish(queue.api, "n1", **{POOL: [f"s{n}" for n in range(len(SERVES))]})
    await eventually(lambda: sum(task.done() for task in queue.tasks) == len(served))
    assert {task.result().json()["labelKey"] for task in queue.tasks if task.done()} == served
    assert await queue.demand() == (0, 0)


async def test_a_cap_limits_the_demand_of_the_waiters_behind_it(make_queue):
    queue = await make_queue(borrow_concurrency_caps="gpu:a100=3,gpu:a100:eu:x=1", borrow_queue_max_per_label=20)
    await publish(queue.api, "n1", **{POOL: ["s1", "s2"]})
    for label in ("gpu:a100", "gpu:a100:eu:x"):
        assert (await borrow(queue.api, label)).status_code == 200
    await queue.wait("gpu:a100", 10)
    await queue.wait("gpu:a100:eu:x", 10)
    await queue.wait(POOL, 4)
    found = await queue.ask()
    assert (found["waiting"], found["held"], found["desired"]) == (2 + 0 + 4, 2, 8)


async def test_waiters_who_have_gone_do_not_count_as_demand(queue):
    await queue.wait(POOL)
    await queue.wait(POOL, 2, maxWaitSeconds=SLACK_S)
    assert await queue.demand() == (3, 1)

    async def one_is_left() -> bool:
        return await queue.demand() == (1, 1)

    await eventually(one_is_left)


async def test_the_demand_of_a_pool_under_maintenance_names_the_maintenance(queue):
    await publish(queue.api, "n1", **{POOL: ["s1"]})
    await queue.api.post(f"/admin/pools/{POOL}/restart")
    await queue.wait(POOL)
    found = await queue.ask()
    assert (found["maintenanceActive"], found["free"], found["waiting"]) == (True, 1, 1)


async def test_of_very_many_waiting_labels_each_counts_as_at_least_one_waiter(api, redis):
    await api.get("/pools")
    for n in range(10_000):
        redis.zadd(f"hub:line:{POOL}:x{n}", {"t1": 1, "t2": 2})
    redis.zadd(f"hub:under:{POOL}", {f"{POOL}:x{n}": n for n in range(10_000)})
    redis.zadd("hub:turns", {f"{POOL}:x{n}": n for n in range(10_000)})
    redis.hset("hub:store", "waiting", "1")
    found = (await api.get(f"/autoscale/{POOL}")).json()
    assert (found["waiting"], found["waitingLabels"], found["truncated"]) == (10_400, 10_000, True)
    assert (await api.get("/autoscale/gpu:h100")).json()["waiting"] == 0


async def test_asking_for_the_demand_changes_nothing(queue, redis):
    await publish(queue.api, "n1", **{POOL: ["s1"]})
    await borrow(queue.api, POOL)
    await queue.wait(POOL)
    before = picture(redis, own=True)
    await queue.ask()
    assert picture(redis, own=True) | {"hub:hubs": 0} == before | {"hub:hubs": 0}  # there it says once a second: here

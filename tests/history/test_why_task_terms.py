"""Why a task waits that a limit of its job keeps, or that needs slots."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson

from hub.capacity.models import LeaseHolder
from hub.capacity.wishes import BundlePart, BundleWish
from hub.core import Hub
from hub.history.explained import Explanation
from hub.history.reading import History
from hub.history.why import why
from hub.jobs.models import Claim, JobRequest
from hub.jobs.names import parse_full_name
from hub.jobs.terms import Limit, limits_text
from tests.history.conftest import JOB, USER
from tests.world import eventually, publish

CLAIM = Claim(100, start=True, holder=LeaseHolder("ann", None, "worker", "127.0.0.1", USER).text)


async def explain(hub: Hub, kind: str, name: str) -> Explanation:
    return await why(hub, History(hub.store), kind, name, 50)


async def serving(hub: Hub, *needs: BundlePart, worker: str | None = None, limits: tuple[Limit, ...] = ()) -> str:
    room, category, name = parse_full_name(JOB) or ("", "", "")
    wish = BundleWish(needs).text if needs else ""
    wanted = JobRequest(room, category, name, worker=worker, needs=wish, limits=limits_text(list(limits)))
    return str((await hub.jobs.register(wanted, {}, USER, superuser=True))[0].worker)


async def submit(hub: Hub, *payloads: dict[str, Any]) -> list[str]:
    texts = [orjson.dumps(each).decode() for each in payloads]
    return [task.id for task in await hub.tasks.submit("one", JOB, texts, USER)]


async def test_why_of_a_task_names_the_limit_and_the_value_that_keep_it(hub):
    worker = await serving(hub, limits=(Limit("customer", running=2),))
    *_, last = await submit(hub, *[{"customer": "acme"}] * 5)
    await hub.claims.claim(worker, USER, CLAIM)
    found = await explain(hub, "task", last)
    assert found.now.because == "The limit of 2 running for customer 'acme' keeps it: 2 running, 3 waiting."
    assert found.now.facts["limit"] == {"key": "customer", "running": 2}
    assert found.now.facts["atLimit"] == {"limit": 0, "value": "acme", "running": 2, "queued": 0, "waiting": 3}
    assert [step.what for step in found.now.next] == ["task.queued"]


async def test_why_of_a_task_names_the_rate_that_keeps_it(hub):
    worker = await serving(hub, limits=(Limit(count=1, per_ms=60_000),))
    _, last = await submit(hub, {}, {})
    await hub.claims.claim(worker, USER, CLAIM)
    found = await explain(hub, "task", last)
    assert found.now.because == "The limit of 1/m keeps it: 1 started in its time, 1 waiting."


async def test_why_of_a_task_says_which_slots_it_waits_for(hub, make_api):
    rounds = [asyncio.create_task(each()) for each in (hub.clock.run, hub.queue.listen, hub.queue.go_round)]
    async with make_api() as api:
        await publish(api, "n1", **{"gpu:a": ["g1", "g2"]})
    needs = (BundlePart("gpu:a", number=2),)
    worker, other = await serving(hub, *needs), await serving(hub, *needs)
    first, second = await submit(hub, {}, {})
    found = await explain(hub, "task", first)
    needed = "it needs gpu:a: 2 wanted, 2 free, 2 published"
    assert found.now.because == f"It is number 1 of 2 in the queue of {JOB}, which 2 workers serve; {needed}."
    await hub.claims.claim(worker, USER, CLAIM)
    waits = hub.claims.claim_or_wait(other, USER, CLAIM, 60.0)
    waiting = asyncio.create_task(waits)
    await eventually(lambda: hub.store.read("ZCARD", hub.store.keys.bundles))
    found = await explain(hub, "task", second)
    assert found.now.because.endswith("it needs gpu:a: 2 wanted, 0 free, 2 published.")
    assert found.now.facts["needs"] == [{"label": "gpu:a", "where": "", "wanted": 2, "free": 0, "published": 2}]
    await hub.store.read("ZADD", hub.store.keys.bundles, "-1", "another")
    found = await explain(hub, "task", second)
    assert found.now.because.endswith("2 published; 1 bundle waits before it.")
    for each in (waiting, *rounds):
        each.cancel()

"""Tasks that need slots, where calls come late, twice, at once, or for what has changed meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from hub.errors import HubError
from tests.jobs.terms import (
    CLAIM,
    HOLDER,
    JOB,
    USER,
    claim,
    claimed,
    lent,
    needs,
    report,
    serving,
    slots_of,
    submit,
    sweep,
)
from tests.world import eventually, publish


@pytest.fixture
async def fleet(hub, make_api):
    async with make_api() as api:
        await publish(api, "n1", **{"gpu:a": ["g1", "g2", "g3"], "gpu:b": ["h1", "h2"]})
        rounds = [asyncio.create_task(each()) for each in (hub.clock.run, hub.queue.listen, hub.queue.go_round)]
        yield hub
        for each in rounds:
            each.cancel()


@pytest.fixture
def ask(fleet):
    """Call tasks/claim as a hub does, with slots that the worker has waited for."""

    async def call(worker, bundle="", job=JOB, **more):
        given = {"most": 1, "start": 1, "runtime_ms": 0, "keyed": 0, "final": 0, "incarnation": "", "holder": HOLDER}
        return await fleet.store.script("tasks/claim")(
            worker=worker, user=USER, request=f"req-{bundle}-{len(calls)}", slots_ms=90_000, bundle=bundle, job=job,
            **{**given, **more},
        )  # fmt: skip

    calls: list[str] = []

    async def counted(*given, **more):
        calls.append("")
        return await call(*given, **more)

    return counted


async def bundle_for(hub, *parts, ticket="c1"):
    """Return slots that a worker has waited for."""
    return await hub.claims._slots.wait(needs(*parts), ticket, HOLDER, 90_000, 5.0)


async def give_back(hub, slot, token="", by="operator", revokes=""):
    """End a lease for its holder, or for an operator."""
    return await hub.store.script("capacity/give_back")(
        slot=slot, hint="", token=token, run="", only_run=0, request=f"back-{slot}", keyed=0, keep_s=60, arrived_ms="",
        revokes=revokes, reason="", by=by,
    )  # fmt: skip


async def waits(hub):
    return await eventually(lambda: hub.store.read("ZCARD", hub.store.keys.bundles))


async def test_a_bundle_that_a_task_has_is_given_to_no_other(fleet, ask):
    worker = await serving(fleet, ("gpu:a", 1))
    first, second = await submit(fleet, 2)
    bundle = await bundle_for(fleet, ("gpu:a", 1))
    assert (await ask(worker, bundle))[1][0] == first
    answer = await ask(worker, bundle)
    held = {task: await slots_of(fleet, task) for task in (first, second)}
    assert not held[first] & held[second], answer
    assert held[first]


async def test_a_bundle_that_a_task_has_is_not_given_back_by_a_claim_that_finds_no_task(fleet, ask):
    worker = await serving(fleet, ("gpu:a", 1))
    (first,) = await submit(fleet)
    bundle = await bundle_for(fleet, ("gpu:a", 1))
    assert (await ask(worker, bundle))[1][0] == first
    await ask(worker, bundle)
    assert len(await slots_of(fleet, first)) == 1


async def test_a_bundle_that_has_lost_a_slot_is_no_slots_for_a_task(fleet, ask):
    worker = await serving(fleet, ("gpu:a", 2))
    (first,) = await submit(fleet)
    bundle = await bundle_for(fleet, ("gpu:a", 2))
    lease, _ = (await fleet.bundles.of(bundle)).leases
    await give_back(fleet, lease.slot, revokes="1")
    assert len(await lent(fleet)) == 1
    answer = await ask(worker, bundle)
    assert len(await slots_of(fleet, first)) in (0, 2), answer


@pytest.mark.parametrize("count", [1, 2])
async def test_slots_for_other_needs_than_the_job_has_now_are_given_back(fleet, ask, count):
    worker = await serving(fleet, ("gpu:a", 1))
    (first,) = await submit(fleet)
    bundle = await bundle_for(fleet, ("gpu:a", 1))
    await serving(fleet, ("gpu:b", count), worker=worker)
    await ask(worker, bundle)
    assert not await slots_of(fleet, first) & {"g1", "g2", "g3"}


@pytest.mark.parametrize("how", ["superseded", "removed", "not served", "forbidden"])
async def test_slots_of_a_claim_that_is_refused_are_given_back(fleet, ask, how):
    worker = await serving(fleet, ("gpu:a", 1), incarnation="p1")
    await submit(fleet)
    bundle = await bundle_for(fleet, ("gpu:a", 1))
    more = {"incarnation": "p1"}
    if how == "superseded":
        await serving(fleet, ("gpu:a", 1), worker=worker, incarnation="p2")
    elif how == "removed":
        await serving(fleet, ("gpu:a", 1))
        await fleet.workers.delete(worker, USER, superuser=False)
    elif how == "not served":
        await serving(fleet, name="B")
        more["job"] = "r1:modifiers:B"
    else:
        more["user"] = "b" * 32
        worker = await serving(fleet, ("gpu:a", 1))
    script = fleet.store.script("tasks/claim")
    given = {"job": JOB, "user": USER, **more}
    await script(
        worker=worker, most=1, start=1, runtime_ms=0, request="r", keyed=0, final=0, holder=HOLDER, slots_ms=90_000,
        bundle=bundle, **given,
    )  # fmt: skip
    assert await lent(fleet) == set()


async def test_a_repeat_with_slots_that_came_twice_keeps_none_that_no_task_has(fleet, ask):
    """A claim that the caller named is answered from memory, and brings slots."""
    worker = await serving(fleet, ("gpu:a", 1))
    (first,) = await submit(fleet)
    script = fleet.store.script("tasks/claim")
    given = {
        "worker": worker, "user": USER, "most": 1, "start": 1, "runtime_ms": 0, "request": "key", "keyed": 1,
        "final": 0, "incarnation": "", "holder": HOLDER, "slots_ms": 90_000,
    }  # fmt: skip
    await script(**given, bundle="", job="")
    bundle = await bundle_for(fleet, ("gpu:a", 1))
    await script(**given, bundle=bundle, job=JOB)
    assert await lent(fleet) == await slots_of(fleet, first)


async def test_a_worker_of_many_jobs_goes_on_with_those_that_lack_nothing(fleet):
    worker = await serving(fleet, ("gpu:a", 3))
    for name in "BCD":
        await serving(fleet, name=name, worker=worker)
    (first,) = await submit(fleet)
    await claim(fleet, worker)
    await submit(fleet, 2)
    (other,) = await submit(fleet, name="D")
    assert await claimed(fleet, worker, 1) == [other]
    assert len(await slots_of(fleet, first)) == 3


async def test_two_claims_of_a_worker_that_wait_at_once_get_a_task_each_with_slots_of_its_own(fleet):
    worker, busy = await serving(fleet, ("gpu:a", 3)), await serving(fleet, ("gpu:a", 3))
    (first,) = await submit(fleet)
    (task,) = await claim(fleet, busy)
    await serving(fleet, ("gpu:a", 1), worker=worker)
    second, third = await submit(fleet, 2)
    claims = [asyncio.create_task(fleet.claims.claim_or_wait(worker, USER, CLAIM, 4.0)) for _ in range(2)]
    await waits(fleet)
    await report(fleet, busy, task)
    found = [task for each in await asyncio.gather(*claims, return_exceptions=True) for task in each]
    assert sorted(task.id for task in found) == sorted([second, third])
    held = [await slots_of(fleet, task) for task in (second, third)]
    assert [len(each) for each in held] == [1, 1]
    assert not held[0] & held[1]
    assert await lent(fleet) == held[0] | held[1]
    assert first


async def test_slots_that_come_for_a_task_that_another_has_taken_are_given_back(fleet):
    worker, busy = await serving(fleet, ("gpu:a", 3)), await serving(fleet, ("gpu:a", 3))
    await submit(fleet)
    (task,) = await claim(fleet, busy)
    (second,) = await submit(fleet)
    waiting = asyncio.create_task(fleet.claims.claim_or_wait(worker, USER, CLAIM, 3.0))
    await waits(fleet)
    await fleet.tasks.move(second, "cancelled", user=USER)
    await report(fleet, busy, task)
    assert await waiting == []
    assert await lent(fleet) == set()


async def test_slots_that_come_while_the_worker_waits_for_others_are_given_back(fleet):
    """It waits for slots for A, whose task is cancelled, and then for slots for B."""
    busy, other = await serving(fleet, ("gpu:a", 3), name="X"), await serving(fleet, ("gpu:b", 2), name="Y")
    await submit(fleet, name="X")
    await submit(fleet, name="Y")
    (at_a,), (at_b,) = await claim(fleet, busy), await claim(fleet, other)
    worker = await serving(fleet, ("gpu:a", 1))
    await serving(fleet, ("gpu:b", 1), name="B", worker=worker)
    (first,) = await submit(fleet)
    waiting = asyncio.create_task(fleet.claims.claim_or_wait(worker, USER, CLAIM, 4.0))
    await waits(fleet)
    await fleet.tasks.move(first, "cancelled", user=USER)
    (second,) = await submit(fleet, name="B")
    await eventually(lambda: _so_many(fleet, 2))
    await report(fleet, busy, at_a)  # the slots for A come, and nothing needs them
    await eventually(lambda: _free(fleet, "g1"))
    await report(fleet, other, at_b)
    (task,) = await waiting
    assert task.id == second
    assert await lent(fleet) == await slots_of(fleet, second)


async def _so_many(hub, count):
    return await hub.store.read("ZCARD", hub.store.keys.bundles) >= count


async def _free(hub, slot):
    return slot not in await lent(hub)


async def test_a_slot_that_its_worker_gives_back_alone_loses_the_attempt(fleet):
    worker = await serving(fleet, ("gpu:a", 2))
    (first,) = await submit(fleet, max_attempts=2)
    (task,) = await claim(fleet, worker)
    lease, _ = (await fleet.bundles.of(task.slots)).leases
    await give_back(fleet, lease.slot, token=lease.token, by=USER)
    await sweep(fleet)
    assert len(await slots_of(fleet, first)) in (0, 2)


async def test_a_slot_is_lost_while_its_worker_reports_the_end(fleet):
    worker = await serving(fleet, ("gpu:a", 2))
    (first,) = await submit(fleet, max_attempts=2)
    (task,) = await claim(fleet, worker)
    await fleet.nodes.leave("n1")
    assert await report(fleet, worker, task) == ["ok"]
    await sweep(fleet)
    assert ((await fleet.tasks.get(first)).status, await lent(fleet)) == ("completed", set())


async def test_a_loss_that_is_told_late_does_not_end_the_next_attempt(fleet):
    worker = await serving(fleet, ("gpu:a", 1))
    (first,) = await submit(fleet, max_attempts=3, backoff_ms=0)
    (task,) = await claim(fleet, worker)
    (slot,) = await lent(fleet)
    await give_back(fleet, slot, revokes="0")
    assert await report(fleet, worker, task, "pending") == ["ok"]
    (again,) = await claim(fleet, worker)
    await sweep(fleet)
    now = await fleet.tasks.get(first)
    assert (again.id, now.status, now.slots) == (first, "running", again.slots)


async def test_the_heartbeats_of_a_worker_keep_the_slots_of_its_tasks_and_no_others(fleet):
    worker, silent = await serving(fleet, ("gpu:a", 1)), await serving(fleet, ("gpu:a", 1))
    first, second = await submit(fleet, 2)
    await claim(fleet, worker)
    await claim(fleet, silent)
    (kept,), (lost,) = await slots_of(fleet, first), await slots_of(fleet, second)
    deadlines = fleet.store.keys.deadlines
    before = [float(await fleet.store.read("ZSCORE", deadlines, slot)) for slot in (kept, lost)]
    await fleet.store.client.hincrby(fleet.store.keys.store, "clock_ms", 20_000)
    await fleet.workers.beat(worker, USER)
    after = [float(await fleet.store.read("ZSCORE", deadlines, slot)) for slot in (kept, lost)]
    assert after[0] >= before[0] + 20_000
    assert after[1] == before[1]


async def test_a_superuser_cannot_start_a_task_without_its_slots(fleet):
    await serving(fleet, ("gpu:a", 1))
    (first,) = await submit(fleet)
    try:
        await fleet.tasks.move(first, "claimed", user=USER, superuser=True)
    except HubError:
        return
    assert len(await slots_of(fleet, first)) == 1


async def test_slots_that_ended_before_the_worker_took_them_are_waited_for_anew(fleet, ask):
    """Under the ticket of before the answer would be that these slots are over."""
    busy, worker = await serving(fleet, ("gpu:a", 3)), await serving(fleet, ("gpu:a", 3))
    first, second = await submit(fleet, 2)
    (task,) = await claim(fleet, busy)
    word, _, _, ticket = await ask(worker)
    await report(fleet, busy, task)
    bundle = await bundle_for(fleet, ("gpu:a", 3), ticket=ticket)
    for slot in await lent(fleet):
        await give_back(fleet, slot, revokes="1")
    answer = await ask(worker, bundle)
    assert (word, answer[0]) == ("lacking", "lacking")
    assert answer[3] != ticket
    assert first
    assert second


async def test_a_claim_goes_on_when_the_slots_for_which_it_waited_have_ended(fleet):
    busy, worker = await serving(fleet, ("gpu:a", 3)), await serving(fleet, ("gpu:a", 3))
    _, second = await submit(fleet, 2)
    (task,) = await claim(fleet, busy)
    script = fleet.claims._claim
    hit = []

    async def claims(**given):
        if given["bundle"] and not hit:
            hit.extend(await lent(fleet))
            for slot in hit:
                await give_back(fleet, slot, revokes="1")
        return await script(**given)

    claims.name = script.name
    fleet.claims._claim = claims
    waiting = asyncio.create_task(fleet.claims.claim_or_wait(worker, USER, CLAIM, 10.0))
    await waits(fleet)
    await report(fleet, busy, task)

    async def is_over() -> bool:
        return bool(hit) and (waiting.done() or await _so_many(fleet, 1))

    await eventually(is_over)
    assert not waiting.done(), waiting.exception()  # it waits anew
    for slot in hit:
        await fleet.store.client.zadd(fleet.store.keys.revoked, {slot: 1})  # the grace of the holder is over
    await fleet.store.script("capacity/relend")(limit=9)
    (found,) = await waiting
    assert found.id == second

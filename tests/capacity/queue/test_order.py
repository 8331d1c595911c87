"""The order of the queue: labels take turns, the first within a label goes first, priority and caps count."""

import asyncio

import pytest

from hub.errors import CallerGone, DeadlineMissed, LabelQueueFull, RunQueueFull, WaitedInVain
from tests.capacity.queue.crowd import offer, wanted
from tests.world import SLACK_S, eventually

LABELS = {"A": "pay:chromium:a", "B": "pay:chromium:b", "C": "pay:chromium:c"}


async def serve(crowd, slot="s1", times=1):
    """Give the slot back so many times, each time after its holder has it."""
    hub = crowd.hub
    for _ in range(times):
        before = len(crowd.served)
        assert (await hub.leases.give_back(slot, "pay:chromium"))[0] == "returned"

        async def one_more(before=before):
            return len(crowd.served) > before

        await eventually(one_more)


async def test_labels_take_turns_and_within_a_label_the_first_waiter_is_served_first(crowd):
    await offer(crowd.hub, "pay:chromium", "s1")
    await crowd.come("holder", "pay:chromium")
    for name in ("a1", "a2", "b1", "c1", "a3"):
        await crowd.come(name, LABELS[name[0].upper()])
    await serve(crowd, times=5)
    assert crowd.served == ["holder", "a1", "b1", "c1", "a2", "a3"]


async def test_a_label_at_its_cap_is_passed_over_until_one_of_its_leases_ends(crowd):
    hub = crowd.hub
    await offer(hub, "pay:chromium", "s1", "s2")
    await hub.queue.set_cap(LABELS["B"], 1)
    await crowd.come("b0", LABELS["B"])
    await crowd.come("holder", "pay:chromium")
    for name in ("a1", "a2", "b1", "c1", "a3"):
        await crowd.come(name, LABELS[name[0].upper()])
    free, kept = (await crowd.grant("holder")).slot, (await crowd.grant("b0")).slot
    await serve(crowd, free, 4)
    assert crowd.served == ["b0", "holder", "a1", "c1", "a2", "a3"]
    await serve(crowd, kept)
    assert crowd.served[-1] == "b1"


async def test_a_higher_priority_goes_first_within_its_label_and_waiting_makes_up_for_it(crowd):
    await offer(crowd.hub, "pay:chromium", "s1")
    await crowd.come("holder", "pay:chromium")
    await crowd.come("early", "pay:chromium")
    await crowd.come("urgent", "pay:chromium", priority=50)
    await crowd.come("late", "pay:chromium", priority=-1)
    await serve(crowd, times=3)
    assert crowd.served == ["holder", "urgent", "early", "late"]


async def test_a_long_wait_outweighs_a_higher_priority(crowd):
    await offer(crowd.hub, "pay:chromium", "s1")
    await crowd.come("holder", "pay:chromium")
    await crowd.come("patient", "pay:chromium", priority=-1)
    await asyncio.sleep(1.1)
    await crowd.come("normal", "pay:chromium")
    await serve(crowd, times=2)
    assert crowd.served == ["holder", "patient", "normal"]


async def test_a_freed_slot_goes_to_the_label_it_can_serve_even_out_of_turn(crowd):
    await offer(crowd.hub, "pay:chromium:a", "sa")
    await offer(crowd.hub, "pay:firefox", "sf")
    await crowd.come("one", "pay:chromium:a")
    await crowd.come("two", "pay:firefox")
    await crowd.come("chromium", "pay:chromium:a:x")
    await crowd.come("firefox", "pay:firefox:x")
    await crowd.hub.leases.give_back("sf", "pay:firefox")
    assert (await crowd.grant("firefox")).slot == "sf"
    assert crowd.waiting() == ["chromium"]


async def test_a_slot_pushed_by_another_program_goes_to_the_first_waiter_and_not_to_a_newcomer(crowd, redis):
    """The slot is pushed by another program; the newcomer's own borrow finds it, and the waiter gets it."""
    await offer(crowd.hub, "pay:chromium", "s1")
    await crowd.come("holder", "pay:chromium")
    await crowd.come("waiter", "pay:chromium:x")
    redis.rpush("available:pay:chromium", '{"nodeId":"n1","browserId":"s9"}')
    newcomer = crowd.hub.leases.borrow(wanted("pay:chromium", wait_s=0.2))
    with pytest.raises(WaitedInVain):
        await newcomer
    assert (await crowd.grant("waiter")).slot == "s9"


@pytest.mark.parametrize("changes", [{"borrow_queue_max_per_label": 2, "borrow_queue_max_per_run": 1}])
async def test_limits_per_label_and_per_run_count_only_waiters_whose_hub_lives(crowd):
    hub = crowd.hub
    await crowd.come("one", "pay:chromium", run="r1")
    with pytest.raises(RunQueueFull):
        await hub.leases.borrow(wanted("pay:firefox", run="r1"))
    await crowd.come("two", "pay:chromium", run="r2")
    with pytest.raises(LabelQueueFull):
        await hub.leases.borrow(wanted("pay:chromium", run="r3"))
    crowd.tasks["one"].cancel()

    async def gone() -> bool:
        return await hub.store.read("ZCARD", hub.store.keys.queue("pay:chromium")) == 1

    await eventually(gone)
    await crowd.come("three", "pay:chromium", run="r1")
    assert crowd.waiting() == ["two", "three"]


async def test_a_wait_that_ends_leaves_no_keys(crowd, redis):
    async def hang_up():
        await asyncio.sleep(0.1)

    with pytest.raises(WaitedInVain, match=r"Borrow timed out after 0\.2s for pay:chromium"):
        await crowd.hub.leases.borrow(wanted("pay:chromium", wait_s=0.2))
    with pytest.raises(CallerGone):
        await crowd.hub.leases.borrow(wanted("pay:chromium"), hang_up)
    left = {key for key in redis.keys("hub:*") if not key.startswith("hub:request:")}
    assert left <= {"hub:store", "hub:hubs", "hub:history", "hub:pace:pay:chromium"}


async def test_no_borrow_is_refused_without_a_known_pace_and_estimates_do_not_fall_with_time_alone(crowd, redis):
    hub = crowd.hub
    await offer(hub, "pay:chromium", "s1")
    await crowd.come("holder", "pay:chromium")
    assert (await hub.tickets.prospect(wanted("pay:chromium"))).estimate_ms == -1  # nothing has been handed on yet
    await crowd.come("first", "pay:chromium", limit_ms=1)
    assert crowd.waiting() == ["first"]
    redis.hset("hub:pace:pay:chromium", "gap_ms", 60_000)
    estimates = []
    for _ in range(6):  # half a minute after the other
        estimates.append((await hub.tickets.prospect(wanted("pay:chromium"))).estimate_ms)
        redis.hincrby("hub:pace:pay:chromium", "mark_ms", -30_000)
    assert estimates == sorted(estimates)
    assert 119_000 < estimates[0] < estimates[-1]  # two have to be served


async def test_a_borrow_is_refused_for_its_estimated_wait_unless_the_pace_is_old(crowd, redis):
    await offer(crowd.hub, "pay:chromium", "s1")
    await crowd.come("holder", "pay:chromium")
    await crowd.come("first", "pay:chromium")
    redis.hset("hub:pace:pay:chromium", "mark_ms", int(redis.hget("hub:pace:pay:chromium", "mark_ms")) - 60_000)
    await serve(crowd)
    with pytest.raises(DeadlineMissed) as refusal:  # it took a minute the last time
        await crowd.hub.leases.borrow(wanted("pay:chromium", wait_s=20, limit_ms=20_000))
    assert 59 < refusal.value.facts["estimatedWaitSeconds"] < 62 + SLACK_S
    assert refusal.value.facts["position"] == 1
    redis.hset("hub:pace:pay:chromium", "mark_ms", int(redis.hget("hub:pace:pay:chromium", "mark_ms")) - 70_000)
    await crowd.come("later", "pay:chromium", limit_ms=20_000)
    await serve(crowd)
    assert crowd.served[-1] == "later"

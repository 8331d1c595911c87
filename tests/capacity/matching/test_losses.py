"""Attributes and `where` after losses, and while other programs take, move and copy items of slots with attributes."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import shutil

import pytest

from hub.doctor import examine
from hub.store.store import SETTLE_MS
from tests.world import PATIENCE_S, RedisServer, beat, eventually, give_back, listed, sweepers

POOL, OTHER = "gpu:a100", "gpu:h100"
FREE, LENT = f"available:{POOL}", f"inuse:{POOL}"
SLOTS = {"s1": {"vram": 24}, "s2": {"vram": 40}, "s3": {"vram": 80}}


@pytest.fixture
async def serving(make_api):
    """(client, hub) of one application whose borrows may wait."""
    async with make_api(borrow_queue_timeout_s=PATIENCE_S) as api:
        yield api, api._transport.app.app.state.serving.hub


async def publish(api, slots=SLOTS, label=POOL, **more):
    """A node without a library of its own registers and publishes its slots, as after every loss."""
    said = [
        {"labelKey": label, "slotId": slot, **({} if like is None else {"attributes": like, "warm": ["repo-1"]})}
        for slot, like in slots.items()
    ]
    answer = await api.post("/node/register", json={"nodeId": "n1", "policy": "reuse", "slots": said, **more})
    assert answer.status_code == 200, answer.text
    return [slot["status"] for slot in answer.json()["slots"]]


async def ask(api, where, label=POOL, key="", wait="0", **more):
    """Ask for a slot that is so; return the answer."""
    headers = {"x-run-id": "r1"} | ({"idempotency-key": key} if key else {})
    return await api.post(
        "/session/borrow",
        json={"labelKey": label, "where": where, "maxWaitSeconds": float(wait), **more},
        headers=headers,
    )


async def take(api, where="", label=POOL, **more):
    """Ask for a slot and do not wait; return its id, None for none."""
    answer = await ask(api, where, label, **more)
    assert answer.status_code in (200, 503), answer.text
    return answer.json().get("browserId")


async def wiped(api, hub, redis, *, forget=False):
    """The store is emptied; with `forget` no hub remembers a lease. The time in which hubs report passes."""
    if forget:
        hub.leases.memory.leases.clear()
    redis.flushall()
    assert (await beat(api, "n1"))["known"] is False
    await hub.clock.tick()


async def opened(hub, redis):
    redis.hincrby("hub:store", "clock_ms", SETTLE_MS + 1)
    await hub.clock.tick()


async def sound(hub):
    """Nothing of what is kept for classes and lines contradicts anything else."""
    await hub.store.read("HINCRBY", hub.store.keys.store, "tick_ms", -3_600_000)
    assert await examine(hub.store, settings=hub.settings, pause_s=0.01) == []
    await hub.clock.tick()


async def swept(hub):
    for service in sweepers(hub):
        assert (await service.sweep()).errors == 0


async def test_nodes_bring_the_attributes_of_their_slots_back_after_a_wipe(serving, redis):
    api, hub = serving
    await publish(api)
    assert await take(api, "vram == 40") == "s2"
    await wiped(api, hub, redis, forget=True)
    await opened(hub, redis)
    assert await take(api, "vram >= 40") is None
    assert await publish(api) == ["published"] * 3
    await opened(hub, redis)
    assert [await take(api, "vram >= 40", prefer=["repo-1"]) for _ in range(3)] == ["s2", "s3", None]
    await sound(hub)


@pytest.mark.parametrize("told_by", ["its node", "the hub"])
async def test_a_reported_lease_leaves_its_slot_with_its_attributes(serving, redis, told_by):
    api, hub = serving
    await publish(api)
    lease = (await ask(api, "vram == 40")).json()
    lent = (await beat(api, "n1"))["lent"]
    await wiped(api, hub, redis, forget=told_by == "its node")
    said = {"lent": lent} if told_by == "its node" else {}
    assert await publish(api, **said) == ["published", "lent", "published"]
    await opened(hub, redis)
    assert redis.hget("session:s2", "leaseToken") == lease["leaseToken"]
    assert await take(api, "vram == 40") is None
    await give_back(api, POOL, "s2", leaseToken=lease["leaseToken"])
    assert await take(api, "vram == 40") == "s2"
    await sound(hub)


async def test_a_slot_returned_before_its_node_reports_it_has_its_attributes_once_it_is_published(serving, redis):
    api, hub = serving
    await publish(api)
    lease = (await ask(api, "vram == 40")).json()
    await wiped(api, hub, redis)
    await opened(hub, redis)
    assert (await give_back(api, POOL, "s2", leaseToken=lease["leaseToken"])).json() == {"returned": "s2"}
    assert await take(api, "vram == 40") is None
    await publish(api)
    assert await take(api, "vram == 40") == "s2"
    await sound(hub)


async def test_a_store_that_comes_back_older_learns_what_was_published_since(tmp_path, make_api):
    with RedisServer(tmp_path / "server", append_fsync="no") as server:
        async with make_api(redis_url=server.url, redis_timeout_s=5, borrow_queue_timeout_s=PATIENCE_S) as api:
            hub = api._transport.app.app.state.serving.hub
            await publish(api, {"s1": {"vram": 24}, "s2": {"vram": 40}})
            shutil.copytree(server.folder, tmp_path / "older")
            await publish(api, {"s1": {"vram": 48}, "s2": {"vram": 40}, "s3": {"vram": 80}})
            lease = (await ask(api, "vram == 48")).json()
            waiter = asyncio.create_task(ask(api, "vram == 96", key="k", wait="20"))
            await eventually(lambda: server.client().zcard(f"hub:line:{POOL}"))
            server.kill()
            shutil.rmtree(server.folder)
            shutil.move(tmp_path / "older", server.folder)
            server.start()
            await hub.clock.tick()
            redis = server.client()
            assert (await beat(api, "n1"))["known"] is False
            status = await publish(api, {"s1": {"vram": 48}, "s2": {"vram": 40}, "s3": {"vram": 80}})
            assert status[0] == "lent"
            await opened(hub, redis)
            assert [await take(api, text) for text in ("vram == 24", "vram == 48", "vram == 80")] == [None, None, "s3"]
            await give_back(api, POOL, "s1", leaseToken=lease["leaseToken"])
            assert await take(api, "vram == 48") == "s1"
            await publish(api, {"s2": {"vram": 96}})
            assert (await waiter).json()["browserId"] == "s2"
            await sound(hub)


async def test_the_server_forgets_what_it_judged_and_judges_again(serving, redis):
    api, _ = serving
    await publish(api)
    assert await take(api, "vram > 24 && vram < 80") == "s2"
    redis.function_flush()
    assert [await take(api, "vram > 24 && vram < 80"), await take(api, "vram > 40")] == [None, "s3"]


async def test_a_new_hub_serves_who_waited_at_another_and_knows_all_classes(serving, make_api, redis):
    api, hub = serving
    await publish(api, {"s1": {"vram": 24}})
    waiter = asyncio.create_task(ask(api, "vram >= 40", key="k", wait="20"))
    await eventually(lambda: redis.zcard(f"hub:line:{POOL}"))
    async with make_api() as second:
        assert await take(second, "vram >= 24") == "s1"
        await publish(second, {"s2": {"vram": 40}})
        assert (await waiter).json()["browserId"] == "s2"
    await sound(hub)


async def test_a_ticket_that_comes_again_under_its_key_has_its_place_among_those_that_want_the_same(serving, redis):
    api, hub = serving
    await publish(api, {"s1": {"vram": 24}})
    assert (await ask(api, "vram >= 40", key="early", wait="0.05")).json()["code"] == "timeout"
    assert redis.keys("hub:want*") + redis.keys("hub:all_lines") == []
    late = asyncio.create_task(ask(api, "vram >= 40", key="late", wait="20"))
    await eventually(lambda: redis.zcard(f"hub:line:{POOL}") == 1)
    early = asyncio.create_task(ask(api, "vram >= 40", key="early", wait="20"))
    await eventually(lambda: redis.zcard(f"hub:line:{POOL}") == 2)
    await sound(hub)
    await publish(api, {"s2": {"vram": 40}})
    assert (await early).json()["browserId"] == "s2"
    await publish(api, {"s3": {"vram": 80}})
    assert (await late).json()["browserId"] == "s3"


async def test_who_waits_during_a_wipe_gets_what_it_wants_afterwards(serving, redis):
    api, hub = serving
    await publish(api, {"s1": {"vram": 24}})
    tasks = {vram: asyncio.create_task(ask(api, f"vram == {vram}", key=f"key-{vram}", wait="25")) for vram in (40, 80)}
    await eventually(lambda: redis.zcard(f"hub:line:{POOL}") == 2)
    await wiped(api, hub, redis)
    await publish(api)
    await opened(hub, redis)
    assert [(await tasks[vram]).json()["browserId"] for vram in (40, 80)] == ["s2", "s3"]
    await sound(hub)


async def test_another_wish_under_the_same_key_is_refused(serving, redis):
    api, _ = serving
    await publish(api, {"s1": {"vram": 24}})
    assert (await ask(api, "vram == 24", key="k")).json()["browserId"] == "s1"
    assert (await ask(api, "vram  ==  24", key="k")).json()["browserId"] == "s1"
    assert (await ask(api, "vram == 40", key="k")).status_code == 422


async def test_a_slot_that_another_program_took_is_not_lent_and_found_again_when_it_is_back(serving, redis):
    api, hub = serving
    await publish(api, {"s1": {"vram": 40}, "s2": {"vram": 40}})
    item = redis.lpop(FREE)
    assert [await take(api, "vram == 40") for _ in range(2)] == ["s2", None]
    redis.rpush(FREE, item)
    await swept(hub)
    assert [await take(api, "vram == 40") for _ in range(2)] == ["s1", None]
    await sound(hub)


async def test_a_slot_that_came_back_unnoticed_goes_to_the_ticket_that_wants_it_with_the_next_sweep(serving, redis):
    api, hub = serving
    await publish(api, {"s1": {"vram": 24}, "s2": {"vram": 40}})
    item = redis.rpop(FREE)
    waiter = asyncio.create_task(ask(api, "vram == 40", key="k", wait="20"))
    await eventually(lambda: redis.zcard(f"hub:line:{POOL}"))
    redis.rpush(FREE, item)
    await swept(hub)
    assert (await waiter).json()["browserId"] == "s2"
    await sound(hub)


async def test_a_slot_that_another_program_lent_is_not_lent_again(serving, redis):
    api, hub = serving
    await publish(api, {"s1": {"vram": 40}, "s2": {"vram": 40}})
    redis.lmove(FREE, LENT, "LEFT", "RIGHT")
    redis.hset("session:s1", mapping={"browserId": "s1", "labelKey": POOL, "nodeId": "n1"})
    redis.set("borrow_ttl:s1", "1", ex=300)
    assert [await take(api, "vram == 40") for _ in range(2)] == ["s2", None]
    await swept(hub)
    assert await take(api, "vram == 40") is None
    assert (await give_back(api, POOL, "s1")).json() == {"returned": "s1"}
    assert await take(api, "vram == 40") == "s1"


@pytest.mark.parametrize("swept_first", [False, True], ids=["at once", "after a sweep"])
@pytest.mark.parametrize("where", ["same list", "another pool", "a lent one"])
async def test_a_copy_of_a_slot_with_attributes_is_not_lent(serving, redis, where, swept_first):
    api, hub = serving
    await publish(api, {"s1": {"vram": 40}})
    item = redis.lindex(FREE, 0)
    if where == "a lent one":
        assert await take(api, "vram == 40") == "s1"
    redis.rpush(f"available:{OTHER}" if where == "another pool" else FREE, item)
    if swept_first:
        await swept(hub)
    got = [
        await take(api, "vram == 40", OTHER),
        await take(api, "vram == 40"),
        await take(api),
        await take(api, label=OTHER),
    ]
    assert [each for each in got if each] == ([] if where == "a lent one" else ["s1"])
    await swept(hub)
    await give_back(api, POOL, "s1")
    lists = [each for name in redis.keys("available:*") + redis.keys("inuse:*") for each in redis.lrange(name, 0, -1)]
    assert lists == [item]
    await sound(hub)


async def test_a_slot_that_another_program_moved_is_found_in_its_new_pool_after_a_sweep(serving, redis):
    api, hub = serving
    await publish(api, {"s1": {"vram": 40}})
    redis.lmove(FREE, f"available:{OTHER}", "LEFT", "RIGHT")
    assert await take(api, "vram == 40") is None
    await swept(hub)
    assert [await take(api, "vram == 40"), await take(api, "vram == 40", OTHER)] == [None, "s1"]
    await give_back(api, OTHER, "s1")
    assert listed(redis, f"available:{OTHER}") == ["s1"]
    await sound(hub)


async def test_a_sweep_lists_a_slot_in_no_pool_where_only_a_copy_of_it_was(serving, redis):
    api, hub = serving
    await publish(api, {"s1": {"vram": 40}})
    await publish(api, {"s2": {"vram": 24}}, OTHER)
    redis.rpush(f"available:{OTHER}", redis.lindex(FREE, 0))
    await swept(hub)
    await sound(hub)
    assert [await take(api, "vram == 40", OTHER), await take(api, "vram == 40")] == [None, "s1"]


async def test_a_sweep_leaves_the_order_of_free_slots_as_it_is(serving, redis):
    api, hub = serving
    for slot in ("s3", "s1", "s2"):
        await publish(api, {slot: {"vram": 40}})
    await swept(hub)
    await sound(hub)
    assert [await take(api, "vram == 40") for _ in range(3)] == ["s3", "s1", "s2"]


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_other_programs_do_no_slot_is_lent_twice_or_lost(serving, redis, seed):
    api, hub = serving
    chance = random.Random(seed)
    slots = {f"s{n}": {"vram": chance.choice([24, 40])} for n in range(6)}
    await publish(api, slots)
    held, taken = {}, []

    def here():
        return [each for name in redis.keys("available:*") for each in redis.lrange(name, 0, -1)]

    for _ in range(60):
        do = chance.choice(["borrow", "borrow", "plain", "return", "pop", "remove", "push", "copy", "sweep"])
        if do in ("borrow", "plain"):
            where = f"vram == {chance.choice([24, 40])}" if do == "borrow" else ""
            answer = await ask(api, where, label=chance.choice([POOL, POOL, OTHER]))
            if answer.status_code == 200:
                slot = answer.json()["browserId"]
                assert slot not in held
                assert slot not in [each["browserId"] for each in map(json.loads, taken)]
                assert not where or slots[slot]["vram"] == int(where[-2:])
                held[slot] = answer.json()["leaseToken"]
        elif do == "return" and held:
            slot = chance.choice(sorted(held))
            await give_back(api, POOL, slot, leaseToken=held.pop(slot))
        elif do in ("pop", "remove") and (items := redis.lrange(FREE, 0, -1)):
            item = items[0] if do == "pop" else chance.choice(items)
            redis.lrem(FREE, 1, item)
            if json.loads(item)["browserId"] not in held and item not in here():
                taken.append(item)
        elif do == "push" and taken:
            redis.rpush(chance.choice([FREE, FREE, f"available:{OTHER}"]), taken.pop())
        elif do == "copy" and (items := redis.lrange(FREE, 0, -1)):
            redis.rpush(FREE, chance.choice(items))
        elif do == "sweep":
            await swept(hub)
    for item in taken:
        redis.rpush(FREE, item)
    await swept(hub)
    for name, item in itertools.product(redis.keys("available:*"), set(here())):  # a copy in the same list stays there
        while redis.lrange(name, 0, -1).count(item) > 1:
            redis.lrem(name, 1, item)
    await publish(api, slots)
    await swept(hub)
    await sound(hub)
    for vram in (24, 40):
        while slot := await take(api, f"vram == {vram}"):
            assert slot not in held
            assert slots[slot]["vram"] == vram
            held[slot] = ""
    assert held.keys() == slots.keys()

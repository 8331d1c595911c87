"""Repairs keep the leases that people hold, and do nothing where nothing is broken."""

from __future__ import annotations

from typing import Any

import httpx
from redis import Redis

from hub.core import Hub
from hub.doctor.checks import place_subject
from hub.store.keys import TABLE
from tests.doctor.test_examine import problems
from tests.world import borrow, listed, picture, publish, push

POOL = "gpu:a100"


async def held(api: httpx.AsyncClient, *slots: str) -> dict[str, Any]:
    """Publish slots of n1 and borrow the first."""
    await publish(api, "n1", **{POOL: list(slots)})
    lease: dict[str, Any] = (await borrow(api, POOL)).json()
    return lease


async def valid(api: httpx.AsyncClient, lease: dict[str, Any]) -> bool:
    answer = await api.get(f"/leases/{lease['browserId']}/verify", params={"token": lease["leaseToken"]})
    return bool(answer.json()["valid"])


async def test_a_holder_keeps_a_slot_that_was_wrongly_put_on_offer(
    api: httpx.AsyncClient, hub: Hub, redis: Redis
) -> None:
    lease = await held(api, "s1")
    redis.rpush("available:gpu:a100", redis.lindex("inuse:gpu:a100", 0))
    redis.delete("inuse:gpu:a100")
    assert len(await problems(hub, repair=True)) == 1
    assert (listed(redis, "available:gpu:a100"), listed(redis, "inuse:gpu:a100")) == ([], ["s1"])
    assert await valid(api, lease)


async def test_a_lent_slot_lost_from_its_list_is_offered_again_once_its_node_names_it(
    api: httpx.AsyncClient, hub: Hub, redis: Redis
) -> None:
    lease = await held(api, "s1")
    redis.delete("inuse:gpu:a100")
    assert len(await problems(hub, repair=True)) == 1
    assert await valid(api, lease)
    told = (await api.post("/node/heartbeat", json={"nodeId": "n1", "version": 1})).json()
    assert told["known"] is False  # so it registers, and names what it has
    await publish(api, "n1", **{POOL: ["s1"]})
    back = {"labelKey": POOL, "browserId": "s1", "leaseToken": lease["leaseToken"]}
    assert "note" not in (await api.post("/session/return", json=back)).json()
    assert listed(redis, "available:gpu:a100") == ["s1"]


async def test_a_lent_slot_lost_from_its_list_is_removed_if_its_node_does_not_name_it(
    api: httpx.AsyncClient, hub: Hub, redis: Redis
) -> None:
    lease = await held(api, "s1")
    redis.delete("inuse:gpu:a100")
    assert len(await problems(hub, repair=True)) == 1
    back = {"labelKey": POOL, "browserId": "s1", "leaseToken": lease["leaseToken"]}
    await api.post("/session/return", json=back)
    assert redis.keys("*:gpu:a100") == []
    assert await problems(hub) == []


async def test_a_lost_deadline_is_restored_from_the_footprint(api: httpx.AsyncClient, hub: Hub, redis: Redis) -> None:
    lease = await held(api, "s1")
    redis.zrem("hub:deadlines", "s1")
    redis.pexpire("borrow_ttl:s1", 90_000)
    redis.hdel("hub:slot:s1", "visible_ms")
    assert len(await problems(hub, repair=True)) == 1
    left_s = (await api.get("/sessions/s1")).json()["secondsLeft"]
    assert 80 < left_s < 92  # as read from the last tick
    assert await valid(api, lease)


async def test_tokens_go_on_rising_after_their_counter_was_lost(api: httpx.AsyncClient, hub: Hub, redis: Redis) -> None:
    lease = await held(api, "s1", "s2")
    redis.hdel("hub:store", "token")
    assert len(await problems(hub, repair=True)) == 2
    assert int((await borrow(api, POOL)).json()["leaseToken"]) > int(lease["leaseToken"])


async def test_a_lease_without_a_session_is_ended_by_a_repair_and_its_slot_is_lent_again(
    api: httpx.AsyncClient, hub: Hub, redis: Redis
) -> None:
    await held(api, "s1")
    redis.delete("session:s1")
    assert len(await problems(hub, repair=True)) == 1
    assert (await borrow(api, POOL)).json()["browserId"] == "s1"
    assert await problems(hub) == []


async def test_a_copy_of_a_slot_in_the_wrong_pool_is_removed(api: httpx.AsyncClient, hub: Hub, redis: Redis) -> None:
    await publish(api, "n1", **{POOL: ["s1", "s2"]})
    redis.rpush("available:gpu:h100", *redis.lrange("available:gpu:a100", 0, 0))
    assert len(await problems(hub, repair=True)) == 1
    assert (listed(redis, "available:gpu:a100"), listed(redis, "available:gpu:h100")) == (["s1", "s2"], [])


async def test_one_of_two_unrecorded_copies_of_a_slot_is_removed(hub: Hub, redis: Redis) -> None:
    push(redis, POOL, ("s1", "f1"))
    push(redis, "gpu:h100", ("s1", "f1"))
    assert len(await problems(hub, repair=True)) == 1
    assert sorted(listed(redis, "available:gpu:a100") + listed(redis, "available:gpu:h100")) == ["s1"]


async def test_two_leases_with_one_token_are_reported(api: httpx.AsyncClient, hub: Hub, redis: Redis) -> None:
    await held(api, "s1", "s2")
    await borrow(api, POOL)
    for where in ("session:s2", "hub:lent:n1"):
        field = "leaseToken" if where.startswith("session") else "s2"
        redis.hset(where, field, redis.hget("session:s1", "leaseToken") or "")
    assert await problems(hub, repair=True) == ["C2 slots s1, s2: two leases have this token"]


async def test_a_repair_moves_the_holds_of_a_slot_with_it_to_the_keys_of_its_node(
    api: httpx.AsyncClient, hub: Hub, redis: Redis
) -> None:
    await publish(api, "n1", **{POOL: ["s1", "s2"]})
    for path in ("node/n1", "admin"):
        assert (await api.post(f"/{path}/slots/s1/hold", json={"reason": "fan is broken"})).is_success
    before = picture(redis, own=True)
    redis.hset("hub:slot:s1", "part", "n7")
    redis.smove("hub:node_slots:n1", "hub:node_slots:n7", "s1")
    redis.rename("hub:node_holds:n1", "hub:node_holds:n7")
    assert len(await problems(hub, repair=True)) == 1
    assert await problems(hub) == []
    after = picture(redis, own=True)
    assert [after["hub:node_holds:n1"], after.keys()] == [before["hub:node_holds:n1"], before.keys()]


async def test_repairs_of_an_intact_store_change_nothing(api: httpx.AsyncClient, hub: Hub, redis: Redis) -> None:
    await held(api, "s1", "s2")
    await publish(api, "n2", **{"licence:catia": ["s9"]})
    await api.post("/admin/nodes/n2/drain")
    await hub.clock.tick()
    before = picture(redis, own=True)

    async def run(kind: str, *subject: str) -> None:
        assert await hub.store.script("doctor/repair")(kind=kind, rest=subject) == ["ok", 0]

    for slot in ("s1", "s2", "s9", "s77"):
        (seen,) = place_subject(slot, [("free", POOL, "x"), ("lent", POOL, redis.lindex("inuse:gpu:a100", 0) or "")])
        if slot == "s1":
            await run("places", seen)
        await run("slots", slot)
    for kind, owner, member in (
        ("in_flight", POOL, "s1"), ("run", "r1", "s1"), ("lent", "n1", "s1"), ("node_slots", "n1", "s2"),
        ("pool_slots", POOL, "s2"), ("deadlines", "", "s1"), ("beats", "", "n1"), ("draining", "", "n2"),
    ):  # fmt: skip
        await run("members", kind, TABLE[kind].type, owner, member)
    await run("pools", POOL, "2")
    await run("drains", "n1", "n1")
    await run("drains", "n2", "n2")
    await run("parts", "n1", "")
    await run("counter", "0")
    assert picture(redis, own=True) == before

"""Slots and nodes of other programs whose ids are not plain: numbers, signs, letters of any script."""

from __future__ import annotations

import httpx
import pytest
from redis import Redis

from hub.core import Hub
from hub.doctor import examine
from tests.world import age_node, borrow, give_back, push

LABEL = "a:b"
FREE, LENT = f"available:{LABEL}", f"inuse:{LABEL}"
ODD = ["rack\u20137", "bu\u0308ro-1", "GPU™1", "büro-1", "機器\uff17", "a b", "\U0001f600", "x²"]


@pytest.mark.parametrize("node", ODD)
async def test_the_pushed_slots_of_a_dead_node_are_removed_even_with_odd_ids(
    api: httpx.AsyncClient, redis: Redis, node: str
) -> None:
    assert (await api.post("/node/register", json={"nodeId": node})).status_code == 200
    push(redis, LABEL, ("s1", node), ("s2", node))
    assert (await borrow(api, LABEL)).status_code == 200
    redis.delete(*redis.keys("node_alive:*"))
    for name in redis.keys("node:*"):
        redis.hset(name, "LastSeen", "2020-01-01T00:00:00Z")
    age_node(redis, node, 3600)
    swept = (await api.post("/admin/sweep")).json()["nodes"]
    assert swept["expired"] == 1
    assert redis.exists(FREE, LENT) == 0


@pytest.mark.parametrize("slot", ["slot-😀", "slot\u20131", "s\u0308", "²", "Ⅷ", "a b"])
async def test_a_pushed_slot_with_an_odd_id_can_be_returned(api: httpx.AsyncClient, redis: Redis, slot: str) -> None:
    push(redis, LABEL, (slot, "n1"))
    lent = (await borrow(api, LABEL)).json()["browserId"]
    for name in (lent, slot):  # as it was answered, and as its node calls it
        answer = await give_back(api, LABEL, name)
        assert (answer.status_code, "note" in answer.json()) == (200, False)
        assert redis.llen(FREE) == 1
        lent = (await borrow(api, LABEL)).json()["browserId"]


@pytest.mark.parametrize(
    ("written", "slot"),
    [("7", "7"), ("-3", "-3"), ("1.50", "1.50"), ("1e3", "1e3"), ("123456789012345678901", "123456789012345678901")],
)
@pytest.mark.parametrize("member", ["browserId", "slotId"])
async def test_a_number_as_slot_id_is_used_as_it_is_written(
    api: httpx.AsyncClient, redis: Redis, member: str, written: str, slot: str
) -> None:
    item = f'{{"nodeId":7,"{member}":{written}}}'
    redis.rpush(FREE, item)
    answer = (await borrow(api, LABEL)).json()
    assert (answer["browserId"], answer["nodeId"]) == (slot, "7")
    assert redis.lrange(LENT, 0, -1) == [item]
    assert "note" not in (await give_back(api, LABEL, slot)).json()
    assert redis.lrange(FREE, 0, -1) == [item]


async def test_two_large_numbers_that_are_the_same_float_are_two_slot_ids(api: httpx.AsyncClient, redis: Redis) -> None:
    ids = ["90071992547409930", "90071992547409931"]
    redis.rpush(FREE, *(f'{{"nodeId":"n1","browserId":{each}}}' for each in ids))
    assert [(await borrow(api, LABEL)).json()["browserId"] for _ in ids] == ids


async def test_slots_with_numbers_as_ids_go_with_their_node(api: httpx.AsyncClient, redis: Redis) -> None:
    await api.post("/node/register", json={"nodeId": "7"})
    redis.rpush(FREE, '{"nodeId":7,"browserId":1}', '{"nodeId":7,"browserId":2}')
    await borrow(api, LABEL)
    age_node(redis, "7", 3600)
    swept = (await api.post("/admin/sweep")).json()["nodes"]
    assert (swept["expired"], redis.exists(FREE, LENT)) == (1, 0)


async def problems(hub: Hub, *, repair: bool = False) -> list[str]:
    found = await examine(hub.store, settings=hub.settings, pause_s=0.01, repair=repair)
    return [f"{each.invariant} {each.subject}: {each.problem}" for each in found]


UNKNOWN = "C10 slot s1: on offer, but its node is not registered, so that its death would not be noticed"


async def test_the_doctor_finds_items_of_unknown_nodes(api: httpx.AsyncClient, hub: Hub, redis: Redis) -> None:
    push(redis, LABEL, ("s1", "n1"), ("s2", "n2"))
    await api.post("/node/register", json={"nodeId": "n2"})
    await api.post("/admin/sweep")
    assert await problems(hub) == []  # the node may be about to register
    for slot in ("s1", "s2"):
        redis.hincrbyfloat(f"hub:slot:{slot}", "adopted_ms", -3_600_000)
    assert await problems(hub) == [UNKNOWN]
    assert await problems(hub, repair=True) == [UNKNOWN]
    assert await problems(hub) == []
    assert (redis.llen(FREE), redis.exists("hub:slot:s1")) == (1, 0)


async def test_the_doctor_renames_keys_that_an_older_hub_wrote_with_another_key_part(
    api: httpx.AsyncClient, hub: Hub, redis: Redis
) -> None:
    await api.post("/node/register", json={"nodeId": "rack\u20137"})
    push(redis, LABEL, ("s1", "rack\u20137"), ("s2", "rack\u20137"))
    lease = (await borrow(api, LABEL)).json()
    await api.post("/admin/sweep")
    for slot in ("s1", "s2"):
        redis.hset(f"hub:slot:{slot}", "part", "rack\u20137")
    redis.rename("hub:node_slots:rack-7", "hub:node_slots:rack\u20137")
    redis.rename("hub:lent:rack-7", "hub:lent:rack\u20137")
    found = await problems(hub, repair=True)
    assert {each.partition(":")[0] for each in found} >= {"C10 slot s1", "C10 slot s2"}
    assert await problems(hub) == []
    assert redis.smembers("hub:node_slots:rack-7") == {"s1", "s2"}
    assert redis.hgetall("hub:lent:rack-7") == {"s1": lease["leaseToken"]}
    assert "note" not in (await give_back(api, LABEL, "s1")).json()

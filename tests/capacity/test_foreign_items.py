"""Items that other programs push, move, copy, spoil and take away: lent when they can be, never lent twice."""

from __future__ import annotations

import json

import pytest

from tests.world import SLACK_S, borrow, give_back, listed, publish, push, sweepers

LABEL = "a:b"
FREE, LENT = f"available:{LABEL}", f"inuse:{LABEL}"


async def take(api, label=LABEL):
    answer = await borrow(api, label)
    assert answer.status_code in (200, 503), answer.text
    return answer.json().get("browserId")


async def test_a_pushed_slot_is_lent_at_once(api, redis):
    assert await take(api) is None
    push(redis, LABEL, ("s1", "n1"))
    assert await take(api) == "s1"


async def test_a_slot_pushed_to_an_empty_pool_is_found(api, redis):
    await publish(api, "n1", **{LABEL: ["s1"]})
    assert [await take(api), await take(api)] == ["s1", None]
    push(redis, LABEL, ("s2", "n1"))
    assert await take(api) == "s2"


async def test_a_slot_moved_to_another_pool_is_lent_from_there(api, redis):
    await publish(api, "n1", **{LABEL: ["s1"]})
    redis.lmove(FREE, "available:c:d", "LEFT", "RIGHT")
    assert await take(api) is None
    assert await take(api, "c:d") == "s1"
    await give_back(api, "c:d", "s1")
    assert listed(redis, "available:c:d") == ["s1"]


async def test_a_slot_moved_to_another_pool_belongs_to_it_after_a_sweep(api, redis):
    await publish(api, "n1", **{LABEL: ["s1", "s2"]})
    redis.lmove(FREE, "available:c:d", "LEFT", "RIGHT")
    await api.post("/admin/sweep")
    counts = {pool["label"]: pool["total"] for pool in (await api.get("/pools")).json()["pools"]}
    assert counts == {LABEL: 1, "c:d": 1}
    assert [await take(api), await take(api), await take(api, "c:d")] == ["s2", None, "s1"]


async def test_a_slot_removed_from_its_list_is_not_lent_and_is_forgotten(api, redis):
    await publish(api, "n1", **{LABEL: ["s1", "s2"]})
    redis.lpop(FREE)
    assert [await take(api), await take(api)] == ["s2", None]
    await api.post("/admin/sweep")
    shown = (await api.get("/nodes/n1")).json()
    assert [(slot["browserId"], slot["state"]) for slot in shown["slotList"]] == [("s2", "lent")]


@pytest.mark.parametrize("swept", [False, True], ids=["at once", "after a sweep"])
@pytest.mark.parametrize("where", ["same list", "another pool", "a lent one"])
async def test_a_second_copy_of_a_slot_is_not_lent(api, redis, where, swept):
    await publish(api, "n1", **{LABEL: ["s1"]})
    item = redis.lindex(FREE, 0)
    if where == "a lent one":
        await take(api)
    redis.rpush("available:c:d" if where == "another pool" else FREE, item)
    if swept:
        await api.post("/admin/sweep")
    got = [await take(api), await take(api), await take(api, "c:d")]
    assert got == ([None] * 3 if where == "a lent one" else ["s1", None, None])
    await give_back(api, LABEL, "s1")
    await api.post("/admin/sweep")
    lists = [item for name in redis.keys("available:*") + redis.keys("inuse:*") for item in redis.lrange(name, 0, -1)]
    assert lists == [item]


async def test_a_second_item_with_the_same_slot_id_is_not_lent(api, redis):
    push(redis, LABEL, ("s1", "n1"))
    redis.rpush(FREE, '{"browserId":"s1","nodeId":"n1"}')
    assert [await take(api), await take(api)] == ["s1", None]
    await give_back(api, LABEL, "s1")
    assert listed(redis, FREE) == ["s1"]


MALFORMED = [
    "not JSON", "", "[]", "7", "null", '{"nodeId":"n1"}', '{"nodeId":"n1","browserId":""}',
    '{"nodeId":"n1","browserId":"  "}', '{"nodeId":"n1","browserId":null}', '{"nodeId":"n1","browserId":["s1"]}',
    '{"nodeId":"n1","browserId":{"x":1}}', '{"inner":{"browserId":"s9"}}', b"\xff\xfe\x00",
    '{"a":' * 1100 + "1" + "}" * 1100,
]  # fmt: skip


@pytest.mark.parametrize("item", MALFORMED, ids=[str(item)[:32] for item in MALFORMED])
async def test_an_item_without_a_slot_id_is_dropped_and_the_next_one_lent(api, redis, item):
    redis.rpush(FREE, item)
    push(redis, LABEL, ("s1", "n1"))
    assert await take(api) == "s1"
    assert not redis.exists(FREE)
    assert listed(redis, LENT) == ["s1"]


ODD_BUT_LENT = [
    ("no node", '{"browserId":"s1"}', "s1"),
    ("blanks", '{ "browserId" : "s1" , "nodeId" : "n1" }', "s1"),
    ("a slot id", '{"nodeId":"n1","slotId":"s1"}', "s1"),
    ("a blank browser id and a slot id", '{"nodeId":"n1","browserId":"","slotId":"s1"}', "s1"),
    ("an id with blanks", '{"nodeId":"n1","browserId":"rack 7/blade:3"}', "rack-7-blade-3"),
    ("an id beyond ASCII", '{"nodeId":"n1","browserId":"été"}', "été"),
    ("an escaped id", '{"nodeId":"n1","browserId":"\\u0073\\u0031"}', "s1"),
    ("a long id", '{"nodeId":"n1","browserId":"' + "x" * 205 + '"}', "x" * 200),
    ("the fragment in broken JSON", '{"nodeId":"n1","browserId":"s1",', "s1"),
    ("an id inside that comes first", '{"x":{"browserId":"s9"},"nodeId":"n1","browserId":"s1"}', "s1"),
    ("ints beyond 64 bits", '{"nodeId":"n1","browserId":"s1","x":' + "9" * 400 + "}", "s1"),
    ("300 levels", '{"nodeId":"n1","browserId":"s1","x":' + "[" * 300 + "]" * 300 + "}", "s1"),
    ("numbers for texts", '{"nodeId":7,"browserId":"s1","webSocketEndpoint":7,"browserType":7}', "s1"),
    ("an idle rule of ages", '{"nodeId":"n1","browserId":"s1","idleTimeoutSeconds":1e300}', "s1"),
    ("an idle rule of years", '{"nodeId":"n1","browserId":"s1","idleTimeoutSeconds":1e14}', "s1"),
    ("an idle rule below 0", '{"nodeId":"n1","browserId":"s1","idleTimeoutSeconds":-5}', "s1"),
    ("an idle rule of text", '{"nodeId":"n1","browserId":"s1","idleTimeoutSeconds":"nan"}', "s1"),
]


@pytest.mark.parametrize(("item", "slot"), [row[1:] for row in ODD_BUT_LENT], ids=[row[0] for row in ODD_BUT_LENT])
async def test_an_unusual_item_with_a_slot_id_is_lent_and_returned_unchanged(api, redis, item, slot):
    redis.rpush(FREE, item)
    answer = await borrow(api, LABEL)
    assert (answer.status_code, answer.json()["browserId"]) == (200, slot), answer.text
    assert redis.hget(f"session:{slot}", "poolLabel") == LABEL
    await api.post("/admin/sweep")
    assert redis.exists(f"session:{slot}")
    assert (await give_back(api, LABEL, slot)).json() == {"returned": slot}
    assert redis.lrange(FREE, 0, -1) == [item]
    for path in ("/pools", f"/pools/{LABEL}", "/sessions", "/diagnostics", "/ready"):
        assert (await api.get(path)).status_code in (200, 503)


async def test_a_slot_id_of_any_json_type_does_not_break_the_hub(api, redis):
    redis.rpush(FREE, b'{"nodeId":"\xff","browserId":"\xfe"}')
    answer = await borrow(api, LABEL)
    assert answer.status_code in (200, 503), answer.text
    assert (answer.status_code == 200) == bool(redis.llen(LENT)), "a lease nobody was answered"
    for path in ("/pools", "/sessions", "/nodes", "/nodes?detail=1"):
        assert (await api.get(path)).status_code == 200


async def test_a_slot_pushed_for_a_draining_node_is_held_back(api, redis):
    await publish(api, "n1", **{LABEL: ["s1"]})
    await api.post("/admin/nodes/n1/drain")
    push(redis, LABEL, ("s2", "n1"))
    assert await take(api) is None
    push(redis, LABEL, ("s3", "n1"))
    await api.post("/admin/sweep")
    assert await take(api) is None
    await api.post("/admin/nodes/n1/undrain")
    assert sorted([await take(api), await take(api), await take(api)]) == ["s1", "s2", "s3"]


async def test_slots_of_a_node_that_was_never_registered_are_lent(api, redis):
    push(redis, LABEL, ("s1", "stranger"))
    assert await take(api) == "s1"
    assert (await api.get("/nodes")).json() == []


async def test_a_session_written_by_hand_is_listed_counted_and_ended(api, redis, hub):
    push(redis, LABEL, ("s1", "n1"), lent=True)
    redis.hset("session:s1", mapping={"browserId": "s1", "labelKey": LABEL, "runId": "r9", "nodeId": "n1"})
    redis.set("borrow_ttl:s1", "1", ex=100)
    _, leases = sweepers(hub)
    assert (await leases.sweep()).expired == 0
    shown = (await api.get("/sessions", params={"run": "r9"})).json()
    assert (shown["total"], shown["sessions"][0]["browserId"]) == (1, "s1")
    assert shown["sessions"][0]["secondsLeft"] == pytest.approx(100, abs=SLACK_S)
    redis.delete("borrow_ttl:s1")
    assert (await leases.sweep()).expired == 1
    assert (listed(redis, FREE), redis.keys("session:*"), redis.exists("recycle:s1")) == (["s1"], [], 1)


async def test_a_session_without_a_footprint_ends_with_the_next_sweep(hub, redis):
    push(redis, LABEL, ("s1", "n1"), lent=True)
    redis.hset("session:s1", mapping={"browserId": "s1", "labelKey": LABEL})
    _, leases = sweepers(hub)
    assert (await leases.sweep()).expired == 1
    assert listed(redis, FREE) == ["s1"]


async def test_the_lease_sweep_deletes_a_session_without_a_label(hub, redis):
    redis.hset("session:s1", mapping={"browserId": "s1"})
    redis.hset("session:s2", mapping={"browserId": "s2", "labelKey": ""})
    _, leases = sweepers(hub)
    assert (await leases.sweep()).errors == 0
    assert redis.keys("session:*") == []


async def test_a_session_deleted_by_another_program_ends_its_lease(api, hub, redis):
    await publish(api, "n1", **{LABEL: ["s1"]})
    await take(api)
    redis.delete("session:s1")
    _, leases = sweepers(hub)
    await leases.sweep()
    assert (listed(redis, FREE), redis.exists(LENT)) == (["s1"], 0)
    assert (await api.get("/sessions")).json()["total"] == 0


async def test_a_slot_that_its_node_replaced_in_redis_itself_is_forgotten_and_the_new_one_lent(api, hub, redis):
    await publish(api, "n1", **{LABEL: ["s1"]})
    await take(api)
    await give_back(api, LABEL, "s1")
    redis.delete("recycle:s1")
    redis.lrem(FREE, 0, redis.lindex(FREE, 0))
    push(redis, LABEL, ("s2", "n1"))
    _, leases = sweepers(hub)
    await leases.sweep()
    assert [slot["browserId"] for slot in (await api.get("/nodes/n1")).json()["slotList"]] == ["s2"]
    assert [await take(api), await take(api)] == ["s2", None]


async def test_a_key_of_the_wrong_type_disturbs_no_other_pool(api, redis):
    redis.set("available:odd:one", "text")
    redis.sadd("inuse:odd:two", "x")
    redis.set("session:odd", "text")
    await publish(api, "n1", **{LABEL: ["s1"]})
    assert (await api.post("/admin/sweep")).json()["leases"]["errors"] == 1
    assert await take(api) == "s1"
    for path in ("/pools", "/sessions", "/ready", "/metrics"):
        assert (await api.get(path)).status_code in (200, 503)


@pytest.mark.parametrize("pool_size", [1, 250])
async def test_a_sweep_sees_every_pushed_slot_of_a_pool(api, hub, redis, pool_size):
    redis.rpush(FREE, *(json.dumps({"nodeId": "n1", "browserId": f"s{n}"}) for n in range(pool_size)))
    _, leases = sweepers(hub)
    done = await leases.sweep()
    assert done.adopted == pool_size
    assert (await api.get(f"/pools/{LABEL}")).json()["total"] == pool_size
    assert (await leases.sweep()).adopted == 0

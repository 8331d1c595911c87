"""Ids as parts of keys: the same in Python and in scripts, and no two nodes under one key."""

from __future__ import annotations

import pytest

from hub.store.keys import key_part
from hub.store.library import modules
from tests.world import age_node, listed, picture, publish

TABLE = [
    ("rack 7/blade:3", "rack-7-blade-3"),
    ("seat_12.eu", "seat_12.eu"),
    ("a*b", "a-b"),
    ("x" * 205, "x" * 200),
    ("été", "été"),
    ("a\0b\nc", "a-b-c"),
    ("\U0001d518" * 201, "\U0001d518" * 200),
    ("x" * 199 + "é" + "y", "x" * 199 + "é"),
]


@pytest.mark.parametrize(("raw", "part"), TABLE, ids=[row[1][:20] for row in TABLE])
def test_python_and_lua_turn_an_id_into_the_key_part_of_the_table(redis, raw, part):
    assert key_part(raw) == part
    script = modules("ids") + "return ids.key_part(ARGV[1])"
    assert redis.eval(script, 0, raw) == part


def test_characters_beyond_ascii_that_are_no_letters_become_hyphens():
    assert key_part("a€b½c²d") == "a-b-c-d"


async def test_a_node_id_is_trimmed_and_kept_unescaped_in_the_set_of_nodes(api, redis):
    answer = await api.post("/node/register", json={"nodeId": "  rack 7/blade:3 "})
    assert answer.json()["registered"] == "rack 7/blade:3"
    assert redis.smembers("nodes") == {"rack 7/blade:3"}
    assert redis.exists("node:rack-7-blade-3", "node_alive:rack-7-blade-3") == 2


async def test_two_node_ids_with_the_same_key_part_cannot_both_register(api, redis):
    await publish(api, "a b")
    before = picture(redis)
    for other in ("a:b", "a-b"):
        answer = await api.post("/node/register", json={"nodeId": other})
        assert (answer.status_code, answer.json()["code"]) == (400, "node-id-collides"), other
    assert picture(redis) == before
    await api.delete("/node/a b")
    assert (await api.post("/node/register", json={"nodeId": "a:b"})).status_code == 200


async def test_an_id_with_the_key_part_of_a_registered_node_is_refused(api):
    await publish(api, "a-b")
    assert (await api.post("/node/register", json={"nodeId": "a b"})).status_code == 400
    await publish(api, "a-b")


@pytest.mark.parametrize("call", ["leave", "admin removes", "publish", "withdraw", "drain", "look", "beat"])
async def test_a_call_for_an_id_whose_key_part_belongs_to_another_node_changes_nothing_of_that_node(api, redis, call):
    await publish(api, "a:b", **{"x:y": ["s1"]})
    before = picture(redis, own=True)
    slots = {"slots": [{"labelKey": "x:y", "slotId": "s1"}, {"labelKey": "x:y", "slotId": "s2"}]}
    answer = await {
        "leave": lambda: api.delete("/node/a b"),
        "admin removes": lambda: api.delete("/admin/nodes/a b"),
        "publish": lambda: api.post("/node/a b/slots", json=slots),
        "withdraw": lambda: api.delete("/node/a b/slots/s1"),
        "drain": lambda: api.post("/admin/nodes/a b/drain"),
        "look": lambda: api.get("/nodes/a b"),
        "beat": lambda: api.post("/node/heartbeat", json={"nodeId": "a b"}),
    }[call]()
    assert answer.status_code in (200, 400, 404)
    after = picture(redis, own=True)
    for key in ("audit:entries", "hub:store"):
        before.pop(key, None)
        after.pop(key, None)
    assert after == before


async def test_the_removal_of_n1_leaves_n10_alone(api, redis):
    await publish(api, "n1", **{"a:b": ["s1"]})
    await publish(api, "n10", **{"a:b": ["s2"]})
    age_node(redis, "n1", 3600)
    await api.post("/admin/sweep")
    assert (redis.smembers("nodes"), listed(redis, "available:a:b")) == ({"n10"}, ["s2"])

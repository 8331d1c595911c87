"""POST /node/register: what it stores, both spellings of everything, and what it refuses."""

from __future__ import annotations

import json
import re

import pytest

from tests.world import SLACK_S, add_node, beat, borrow, listed, picture, push

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}Z")


async def register(api, **body):
    answer = await api.post("/node/register", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_registration_stores_every_field_of_the_contract(api, redis):
    answer = await register(
        api, NodeId="blade-9", Apps=["Pay:Chromium:Prod", "Pay:Firefox:Prod"], Capacity=4,
        Labels={"Region": "eu", "os": "linux"}, BaseUrl="http://blade-9:5000",
    )  # fmt: skip
    assert answer["registered"] == "blade-9"
    stored = redis.hgetall("node:blade-9")
    assert TIME.fullmatch(stored.pop("LastSeen"))
    assert json.loads(stored.pop("Labels")) == {"Region": "eu", "os": "linux"}
    assert stored == {"Apps": "Pay:Chromium:Prod,Pay:Firefox:Prod", "Capacity": "4", "BaseUrl": "http://blade-9:5000"}
    assert redis.smembers("nodes") == {"blade-9"}
    assert redis.get("node_alive:blade-9") == "1"
    assert not redis.keys("available:*")
    assert "slots" not in answer


@pytest.mark.parametrize("timeout_s", [60, 7.5])
async def test_the_alive_key_lives_for_the_timeout_and_heartbeats_come_every_sixth_of_it(make_api, redis, timeout_s):
    async with make_api(node_timeout_s=timeout_s) as api:
        answer = await register(api, nodeId="n1")
        lives_s = max(timeout_s, 90)  # a node that writes the key itself does so for 90 s
        assert redis.pttl("node_alive:n1") / 1000 == pytest.approx(lives_s, abs=SLACK_S)
        await beat(api, "n1")
    assert redis.pttl("node_alive:n1") / 1000 == pytest.approx(timeout_s, abs=SLACK_S)
    assert answer["nextBeatMs"] == pytest.approx(timeout_s * 1000 / 6, rel=0.11)


SPELLINGS = [
    ("small letters", {"nodeId": "n1", "apps": ["a:b"], "capacity": 3, "labels": {"k": "v"}, "baseUrl": "u"}),
    ("capitals", {"NodeId": "n1", "Apps": ["a:b"], "Capacity": 3, "Labels": {"k": "v"}, "BaseUrl": "u"}),
    ("texts", {"nodeId": "n1", "apps": " a:b ,", "capacity": "3", "labels": {"k": "v"}, "baseUrl": " u "}),
    ("more", {"nodeId": "n1", "apps": ["a:b", " "], "capacity": 3.7, "labels": {"k": "v"}, "baseUrl": "u", "x": 1}),
]  # fmt: skip


@pytest.mark.parametrize("body", [row[1] for row in SPELLINGS], ids=[row[0] for row in SPELLINGS])
async def test_a_registration_is_read_in_every_spelling_of_the_wire(api, redis, body):
    await register(api, **body)
    stored = redis.hgetall("node:n1")
    stored.pop("LastSeen")
    assert stored == {"Apps": "a:b", "Capacity": "3", "Labels": '{"k":"v"}', "BaseUrl": "u"}


@pytest.mark.parametrize(
    ("given", "stored"), [(None, "1"), ("x", "1"), (-3, "0"), ("-3", "0"), (0, "0"), (True, "1"), (1e300, "1000000000")]
)
async def test_an_unreadable_capacity_counts_as_1_and_a_negative_one_as_0(api, redis, given, stored):
    await register(api, nodeId="n1", capacity=given)
    assert redis.hget("node:n1", "Capacity") == stored


async def test_label_values_are_stored_as_text(api, redis):
    await register(api, nodeId="n1", labels={"n": 7, "b": True, "z": None, "l": [1, {"x": "y"}], "t": "s"})
    assert json.loads(redis.hget("node:n1", "Labels")) == {
        "n": "7", "b": "true", "z": "null", "l": '[1,{"x":"y"}]', "t": "s",
    }  # fmt: skip


async def test_a_new_registration_replaces_the_old_one_and_a_missing_base_url_is_deleted(api, redis, hub):
    await register(api, nodeId="n1", baseUrl="http://x", capacity=2, slots=[{"labelKey": "a:b", "slotId": "s1"}])
    redis.hset("node:n1", mapping={"PlaywrightVersion": "1.5", "SidecarHealth:a:b": "ok"})
    await register(api, nodeId="n1", capacity=3)
    stored = redis.hgetall("node:n1")
    assert (stored.get("BaseUrl"), stored["Capacity"]) == (None, "3")
    assert (stored["PlaywrightVersion"], stored["SidecarHealth:a:b"]) == ("1.5", "ok")
    assert listed(redis, "available:a:b") == ["s1"]
    actions = [entry["action"] for entry in await hub.audit.read(0, 10, "node", None, None)]
    assert actions == ["register.update", "register.success"]


async def test_slots_may_be_pushed_before_their_node_registers(api, redis):
    push(redis, "a:b", ("s1", "n1"))
    await register(api, nodeId="n1", apps=["a:b", "no label", "c:d"])
    assert (await borrow(api, "a:b")).json()["browserId"] == "s1"


REFUSED = [
    ("no JSON", b"{", "invalid-json", "invalid JSON"),
    ("nothing", b"", "invalid-json", "invalid JSON"),
    ("null", b"null", "invalid-json", "empty body"),
    ("an array", b"[]", "invalid-json", "invalid JSON"),
    ("a text", b'"n1"', "invalid-json", "invalid JSON"),
    ("not UTF-8", b'{"nodeId":"\xff"}', "invalid-json", "invalid JSON"),
    ("half a surrogate pair", b'{"nodeId":"\\ud800"}', "invalid-json", "invalid JSON"),
    ("NaN", b'{"nodeId":"n1","capacity":NaN}', "invalid-json", "invalid JSON"),
    ("no id", b"{}", "missing-member", "missing NodeId"),
    ("a null id", b'{"nodeId":null}', "missing-member", "missing NodeId"),
    ("a blank id", b'{"nodeId":"  "}', "missing-member", "missing NodeId"),
    ("an id too long", json.dumps({"nodeId": "x" * 513}).encode(), "invalid-value", "512"),
    ("an id of bad type", b'{"nodeId":{}}', "invalid-value", "NodeId"),
    ("apps of bad type", b'{"nodeId":"n1","apps":7}', "invalid-value", "apps"),
    ("labels of bad type", b'{"nodeId":"n1","labels":[1]}', "invalid-value", "labels"),
    ("a base URL of bad type", b'{"nodeId":"n1","baseUrl":[1]}', "invalid-value", "baseUrl"),
]


@pytest.mark.parametrize(("body", "code", "detail"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
async def test_an_invalid_registration_stores_no_node(api, redis, body, code, detail):
    answer = await api.post("/node/register", content=body)
    assert (answer.status_code, answer.json()["code"]) == (400, code)
    assert detail.lower() in answer.json()["detail"].lower()
    assert set(picture(redis)) == set()
    reasons = [json.loads(entry)["Details"]["reason"] for entry in redis.lrange("hub:refusals", 0, -1)]
    expected = [] if code != "invalid-json" else ["empty-body" if body == b"null" else "invalid-json"]
    assert reasons == expected


async def test_a_deeply_nested_registration_is_stored_or_refused_and_never_an_error(api):
    for depth in (60, 250, 253, 300, 900, 2000):
        deep = "[" * depth + "]" * depth
        body = (
            f'{{"nodeId":"n1","labels":{{"x":{deep}}},"slots":[{{"labelKey":"a:b","slotId":"s{depth}","x":{deep}}}]}}'
        )
        answer = await api.post("/node/register", content=body)
        assert answer.status_code in (200, 400), (depth, answer.text)
        for path in ("/nodes/n1", "/pools", "/nodes?detail=1"):
            assert (await api.get(path)).status_code in (200, 404)
        borrowed = await borrow(api, "a:b")
        assert borrowed.status_code == (200 if answer.status_code == 200 else 503), (depth, borrowed.text)
        await api.delete("/node/n1")


async def test_a_registration_counts_as_a_heartbeat(api, hub, redis):
    await add_node(hub, "n1")
    redis.delete("node_alive:n1")
    redis.hset("node:n1", "LastSeen", "2020-01-01T00:00:00Z")
    await register(api, nodeId="n1")
    shown = (await api.get("/nodes/n1")).json()
    assert (shown["state"], shown["sinceBeatMs"] < 5000) == ("alive", True)

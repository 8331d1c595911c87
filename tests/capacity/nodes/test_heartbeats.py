"""Heartbeats: what they write, what they are told, and versions that keep answers short."""

from __future__ import annotations

import pytest

from tests.world import SLACK_S, age_node, beat, borrow, give_back, picture, publish

LABEL = "a:b"


async def test_a_heartbeat_writes_all_three_signs_of_life(make_api, redis):
    async with make_api(node_timeout_s=30) as api:
        await publish(api, "n 1")
        age_node(redis, "n 1", 20)
        redis.delete("node_alive:n-1")
        redis.hset("node:n-1", "LastSeen", "x")
        answer = await beat(api, "n 1")
    assert answer.pop("nextBeatMs") == pytest.approx(5000, rel=0.11)
    assert answer == {"nodeId": "n 1", "known": True, "drain": False, "recycle": [], "version": 0}
    assert redis.pttl("node_alive:n-1") / 1000 == pytest.approx(30, abs=SLACK_S)
    assert redis.hget("node:n-1", "LastSeen").endswith("0000Z")
    assert redis.zscore("hub:beats", "n 1") == pytest.approx(int(redis.hget("hub:store", "clock_ms")), abs=1000)


async def test_a_heartbeat_of_an_unknown_node_is_answered_as_unknown_and_stores_nothing(api, redis):
    answer = await beat(api, "n1", version=7)
    answer.pop("nextBeatMs")
    assert answer == {"nodeId": "n1", "known": False, "drain": False, "recycle": [], "version": 0}
    assert picture(redis) == {}


async def test_a_heartbeat_with_the_current_version_is_answered_without_the_lists_of_leases_and_marks(api):
    await publish(api, "n1", **{LABEL: ["s1", "s2"]})
    token = (await borrow(api, LABEL)).json()["leaseToken"]
    full = await beat(api, "n1")
    assert (full["lent"], full["recycle"]) == ({"s1": token}, [])
    again = await beat(api, "n1", version=full["version"])
    assert "lent" not in again
    assert again["version"] == full["version"]


async def test_every_change_of_leases_or_recycle_marks_changes_the_version(api, redis):
    await publish(api, "n1", **{LABEL: ["s1", "s2"]})
    seen = []

    async def told():
        answer = await beat(api, "n1", version=seen[-1]["version"] if seen else 0)
        seen.append(answer)
        return sorted(answer["lent"]), sorted(answer["recycle"])

    await borrow(api, LABEL)
    assert await told() == (["s1"], [])
    await borrow(api, LABEL)
    assert await told() == (["s1", "s2"], [])
    await give_back(api, LABEL, "s1")
    assert await told() == (["s2"], ["s1"])
    await borrow(api, LABEL)
    assert await told() == (["s1", "s2"], ["s1"])
    redis.delete("borrow_ttl:s2")
    await api.post("/admin/sweep")
    assert await told() == (["s1"], ["s1", "s2"])
    await api.delete("/node/n1/slots/s1")
    assert await told() == ([], ["s2"])
    await api.post("/admin/pools/a:b/restart")
    assert await told() == ([], ["s2"])
    assert len({answer["version"] for answer in seen}) == len(seen)


async def test_a_heartbeat_with_an_unknown_version_is_answered_with_all_leases_of_the_node(api):
    await publish(api, "n1", **{LABEL: ["s1", "s2"]})
    await borrow(api, LABEL)
    await give_back(api, LABEL, "s1")
    full = await beat(api, "n1")
    for version in (0, full["version"] + 1, 2**53 - 1):
        assert {**(await beat(api, "n1", version=version)), "nextBeatMs": 0} == {**full, "nextBeatMs": 0}


async def test_an_acknowledged_recycle_mark_is_deleted(api, redis):
    await publish(api, "n1", **{LABEL: ["s1", "s2"]})
    for _ in range(2):
        await borrow(api, LABEL)
    for slot in ("s1", "s2"):
        await give_back(api, LABEL, slot)
    assert sorted((await beat(api, "n1"))["recycle"]) == ["s1", "s2"]
    assert (await beat(api, "n1", recycled=["s1"]))["recycle"] == ["s2"]
    assert (redis.exists("recycle:s1"), redis.exists("recycle:s2")) == (0, 1)
    assert (await beat(api, "n1"))["recycle"] == ["s2"]


async def test_a_recycle_mark_that_has_expired_is_not_told_any_more(api, redis):
    await publish(api, "n1", **{LABEL: ["s1"]})
    await borrow(api, LABEL)
    await give_back(api, LABEL, "s1")
    redis.delete("recycle:s1")
    assert (await beat(api, "n1"))["recycle"] == []


async def test_a_node_cannot_acknowledge_the_recycle_mark_of_another_node(api, redis):
    await publish(api, "n1", **{LABEL: ["s1"]})
    await publish(api, "n2")
    await borrow(api, LABEL)
    await give_back(api, LABEL, "s1")
    await beat(api, "n2", recycled=["s1"])
    await beat(api, "stranger", recycled=["s1"])
    assert redis.exists("recycle:s1")
    assert (await beat(api, "n1"))["recycle"] == ["s1"]


async def test_a_draining_node_is_told_to_drain_with_every_heartbeat(api):
    await publish(api, "n1", **{LABEL: ["s1"]})
    await api.post("/admin/nodes/n1/drain")
    first = await beat(api, "n1")
    assert first["drain"]
    assert (await beat(api, "n1", version=first["version"]))["drain"]
    await api.post("/admin/nodes/n1/undrain")
    assert not (await beat(api, "n1", version=first["version"]))["drain"]


REFUSED = [
    ("no id", {}, "missing-member"),
    ("a null id", {"nodeId": None}, "missing-member"),
    ("a blank id", {"nodeId": " "}, "invalid-value"),
    ("an id of bad type", {"nodeId": [1]}, "invalid-value"),
    ("an id too long", {"nodeId": "x" * 513}, "invalid-value"),
    ("a version of bad type", {"nodeId": "n1", "version": "x"}, "invalid-value"),
    ("a version below 0", {"nodeId": "n1", "version": -1}, "invalid-value"),
    ("a version beyond all", {"nodeId": "n1", "version": 2**60}, "invalid-value"),
    ("half a version", {"nodeId": "n1", "version": 0.5}, "invalid-value"),
    ("true as version", {"nodeId": "n1", "version": True}, "invalid-value"),
    ("recycled no list", {"nodeId": "n1", "recycled": "s1"}, "invalid-value"),
    ("recycled numbers", {"nodeId": "n1", "recycled": [1]}, "invalid-value"),
    ("a recycled id that is none", {"nodeId": "n1", "recycled": ["a b"]}, "invalid-value"),
    ("1,001 recycled", {"nodeId": "n1", "recycled": ["s1"] * 1001}, "invalid-value"),
]


@pytest.mark.parametrize(("body", "code"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
async def test_an_invalid_heartbeat_is_refused_alone_and_within_a_batch(api, redis, body, code):
    await publish(api, "n1")
    await publish(api, "n2")
    before = picture(redis)
    alone = await api.post("/node/heartbeat", json=body)
    assert (alone.status_code, alone.json()["code"]) == (400, code)
    assert picture(redis) == before
    company = (await api.post("/node/heartbeats", json={"beats": [body, {"nodeId": "n2"}]})).json()["beats"]
    error = company[0]["error"]
    assert (error["code"], error["status"], error["instance"]) == (code, 400, "/node/heartbeats")
    assert (company[1]["nodeId"], company[1]["known"]) == ("n2", True)


async def test_many_heartbeats_in_one_call_are_answered_in_their_order(api):
    await publish(api, "n1", **{LABEL: ["s1"]})
    await publish(api, "n2")
    token = (await borrow(api, LABEL)).json()["leaseToken"]
    beats = [{"nodeId": "n2"}, "no object", {"nodeId": "x"}, {"nodeId": "n1"}, {"nodeId": "n1", "version": 9}, 7, None]
    answers = (await api.post("/node/heartbeats", json={"beats": beats})).json()["beats"]
    assert [answer["nodeId"] for answer in answers] == ["n2", None, "x", "n1", "n1", None, None]
    assert [answer.get("known") for answer in answers] == [True, None, False, True, True, None, None]
    assert [answer["error"]["code"] for answer in answers if "error" in answer] == ["invalid-json"] * 3
    assert answers[3]["lent"] == {"s1": token}


async def test_one_call_takes_at_most_a_thousand_heartbeats(api, hub):
    await publish(api, "n1")
    beats = [{"nodeId": f"n{n}"} for n in range(1000)]
    answers = (await api.post("/node/heartbeats", json={"beats": beats})).json()["beats"]
    assert [answer["known"] for answer in answers] == [n == 1 for n in range(1000)]
    for body in ({"beats": [*beats, {"nodeId": "x"}]}, {"beats": {}}, {}, {"beats": None}):
        answer = await api.post("/node/heartbeats", json=body)
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid-value")


async def test_a_heartbeat_needs_the_node_secret(make_api):
    async with make_api(runner_secret="r", node_secret="n") as api:
        for path, body in (("/node/heartbeat", {"nodeId": "n1"}), ("/node/heartbeats", {"beats": []})):
            status = [
                (await api.post(path, json=body, headers={"x-hub-secret": secret})).status_code
                for secret in ("n", "r", "", "nn")
            ]
            assert status == [200, 401, 401, 401]

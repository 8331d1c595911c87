"""Whether a node can be shut down: only while it drains, and only when nothing of it is lent."""

from __future__ import annotations

import pytest

from tests.world import borrow, give_back, publish, push

LABEL = "gpu:a100"


async def ask(api, node="n1"):
    answer = await api.get(f"/nodes/{node}/safe-to-kill")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def verdict(api, node="n1"):
    said = await ask(api, node)
    return said["safe"], said["draining"], said["lent"]


async def drain(api, node="n1", verb="drain", **body):
    assert (await api.post(f"/admin/nodes/{node}/{verb}", json=body)).status_code == 200


async def test_a_draining_node_is_safe_to_kill_once_all_its_slots_are_back(api):
    await publish(api, "n1", **{LABEL: ["s1", "s2"]})
    await borrow(api, LABEL)
    assert await verdict(api) == (False, False, 1)
    await drain(api)
    assert await ask(api) == {
        "nodeId": "n1", "safe": False, "draining": True, "lent": 1, "reason": "1 of its slots is still lent.",
        "deadlineSecondsLeft": None,
    }  # fmt: skip
    await give_back(api, LABEL, "s1")
    assert await ask(api) == {
        "nodeId": "n1", "safe": True, "draining": True, "lent": 0, "reason": "It drains, and nothing of it is lent.",
        "deadlineSecondsLeft": None,
    }  # fmt: skip
    await drain(api, verb="undrain")
    assert await verdict(api) == (False, False, 0)


async def test_an_idle_node_that_does_not_drain_is_not_safe_to_kill(api):
    await publish(api, "n1", **{LABEL: ["s1"]})
    said = await ask(api)
    assert (said["safe"], said["reason"]) == (False, "It does not drain, so a slot of it may be lent at any moment.")


async def test_a_node_past_its_drain_deadline_is_safe_to_kill(api, redis):
    await publish(api, "n1", **{LABEL: ["s1"]})
    await borrow(api, LABEL)
    await drain(api, deadlineSeconds=60)
    assert (await ask(api))["deadlineSecondsLeft"] == pytest.approx(60, abs=1)
    redis.hincrby("hub:store", "clock_ms", 61_000)
    assert await verdict(api) == (False, True, 1), "the deadline alone ends nothing"
    await api.post("/admin/sweep")
    assert await verdict(api) == (True, True, 0)


async def test_a_draining_node_without_slots_is_safe_to_kill(api):
    await publish(api, "n1")
    assert await verdict(api) == (False, False, 0)
    await drain(api)
    assert await verdict(api) == (True, True, 0)


async def test_a_node_whose_drain_was_cut_short_is_not_safe_to_kill_until_it_is_repeated(api, redis):
    await publish(api, "n1", **{LABEL: [f"s{n}" for n in range(300)]})
    await drain(api)
    redis.rpush(f"available:{LABEL}", redis.hget("hub:slot:s7", "item"))  # as its last batch would have found it
    redis.hset("hub:slot:s7", "place", "free")
    redis.zadd("hub:open:2", {LABEL: 0})
    said = await ask(api)
    assert (said["safe"], said["lent"]) == (False, 0)
    assert "drain it once more" in said["reason"]
    await drain(api)
    assert await verdict(api) == (True, True, 0)


async def test_every_slot_of_a_large_node_is_checked_before_it_is_safe_to_kill(api, hub, redis):
    for first in (0, 900, 1800):
        await publish(api, "n1", **{LABEL: [f"s{n}" for n in range(first, first + 900)]})
    await drain(api)
    assert await verdict(api) == (True, True, 0)
    for slot in ("s5", "s2699"):
        redis.hset(f"hub:slot:{slot}", "place", "free")
        assert (await ask(api))["safe"] is False
        redis.hset(f"hub:slot:{slot}", "place", "held")


async def test_a_slot_lent_without_a_session_makes_its_node_unsafe_to_kill(api, redis):
    await publish(api, "n1")
    push(redis, LABEL, ("s1", "n1"), lent=True)
    await api.post("/admin/sweep")
    await drain(api)
    assert await verdict(api) == (False, True, 1)


async def test_an_unregistered_node_is_answered_differently_from_a_safe_one(api, redis):
    answer = await api.get("/nodes/n1/safe-to-kill")
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown-node")
    await publish(api, "n1", **{LABEL: ["s1"]})
    await drain(api)
    await api.delete("/node/n1")
    assert (await api.get("/nodes/n1/safe-to-kill")).status_code == 404
    push(redis, LABEL, ("t1", "n2"))
    lease = (await borrow(api, LABEL)).json()
    assert lease["nodeId"] == "n2", "it lends before it has registered"
    assert await verdict(api, "n2") == (False, False, 1)


async def test_after_a_loss_of_the_store_no_node_is_called_gone_for_one_timeout(make_api, redis):
    async with make_api(node_timeout_s=60) as api:
        await publish(api, "n1", **{LABEL: ["s1"]})
        redis.flushall()
        answer = await api.get("/nodes/n1/safe-to-kill")
        assert (answer.status_code, answer.json()["code"]) == (503, "settling")
        assert 50 < float(answer.headers["retry-after"]) < 65
        redis.hincrby("hub:store", "clock_ms", 63_000)
        assert (await api.get("/nodes/n1/safe-to-kill")).status_code == 404


async def test_the_node_id_of_safe_to_kill_may_be_encoded_in_the_path(api):
    await publish(api, "rack 7/blade:3")
    await drain(api, "rack%207%2Fblade%3A3")
    assert await ask(api, "rack%207%2Fblade%3A3") == await ask(api, "rack 7/blade:3")
    assert (await ask(api, "rack%207%2Fblade%3A3"))["safe"] is True


async def test_asking_whether_a_node_is_safe_to_kill_changes_nothing(api, redis):
    await publish(api, "n1", **{LABEL: ["s1", "s2"]})
    await borrow(api, LABEL)
    await drain(api, deadlineSeconds=60)
    before = {key: redis.dump(key) for key in redis.keys("*")}
    await ask(api)
    assert {key: redis.dump(key) for key in redis.keys("*")} == before

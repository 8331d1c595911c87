"""POST /session/return: what ends, what only looks as if it did, and whose lease it is."""

from __future__ import annotations

import json

import pytest

from tests.world import SLACK_S, borrow, give_back, listed, picture, publish, push

LABEL = "Maps:Chromium:Prod"


@pytest.fixture
async def lease(api):
    await publish(api, "n1", **{LABEL: ["s1"]})
    return (await borrow(api, LABEL)).json()


async def test_a_return_deletes_every_key_of_the_lease(make_api, redis):
    async with make_api(idle_timeout_s=60) as api:
        await publish(api, "n1", **{LABEL: ["s1"]})
        item = redis.lindex(f"available:{LABEL}", 0)
        await borrow(api, LABEL)
        await api.post("/results/browser/s1/test", json={"testId": "t1"})
        before = set(redis.keys("*"))
        answer = await give_back(api, LABEL, "s1")
    assert (answer.status_code, answer.json()) == (200, {"returned": "s1"})
    assert before - set(redis.keys("*")) >= {
        "session:s1", "borrow_ttl:s1", "borrow_idle:s1", "browser_run:s1", "browser_test:s1", f"inuse:{LABEL}",
    }  # fmt: skip
    assert redis.lrange(f"available:{LABEL}", 0, -1) == [item]
    assert redis.get("recycle:s1") == "1"
    assert redis.ttl("recycle:s1") == pytest.approx(120, abs=SLACK_S)


async def test_a_returned_slot_goes_to_the_end_of_its_list(api, redis):
    await publish(api, "n1", **{LABEL: ["s1", "s2", "s3"]})
    await borrow(api, LABEL)
    await give_back(api, LABEL, "s1")
    assert listed(redis, f"available:{LABEL}") == ["s2", "s3", "s1"]


async def test_a_second_return_changes_nothing_and_is_answered_with_a_note(api, redis, lease):
    await give_back(api, LABEL, "s1")
    before = picture(redis)
    answer = await give_back(api, LABEL, "s1")
    assert answer.json() == {"returned": "s1", "note": "already returned"}
    assert picture(redis) == before


async def test_returning_an_unknown_slot_is_answered_with_a_note(api, redis):
    answer = await give_back(api, LABEL, "s1")
    assert answer.json() == {"returned": "s1", "note": "already returned"}
    assert redis.keys("available:*") == []


@pytest.mark.parametrize(
    "body",
    [
        {"browserId": "s1"}, {"labelKey": LABEL}, {}, {"labelKey": LABEL, "browserId": ""},
        {"labelKey": LABEL, "browserId": "  "}, {"labelKey": None, "browserId": "s1"},
    ],
)  # fmt: skip
async def test_a_return_without_a_required_member_names_it_and_ends_no_lease(api, redis, lease, body):
    answer = await api.post("/session/return", json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "missing-member")
    assert answer.json()["detail"] == "missing labelKey|browserId"
    assert redis.exists("session:s1")


async def test_a_return_with_a_bad_label_ends_no_lease(api, redis, lease):
    answer = await give_back(api, "a::b", "s1")
    assert answer.json()["detail"].startswith("invalid labelKey:")
    assert redis.exists("session:s1")


async def test_a_return_with_part_of_a_slot_id_ends_no_lease(api, redis):
    await publish(api, "n1", **{LABEL: ["s1", "s10"]})
    await borrow(api, LABEL)
    await borrow(api, LABEL)
    for near in ("s", "1", "0", "S1", "browserId", "s100"):
        assert "note" in (await give_back(api, LABEL, near)).json()
    assert listed(redis, f"inuse:{LABEL}") == ["s1", "s10"]


async def test_a_return_with_another_label_still_ends_the_lease_of_its_slot(api, redis, lease):
    answer = await give_back(api, "quite:other", "s1")
    assert answer.json() == {"returned": "s1"}
    assert listed(redis, f"available:{LABEL}") == ["s1"]


async def test_a_slot_served_by_fallback_returns_to_its_own_pool(api, redis):
    await publish(api, "n1", **{LABEL: ["s1"]})
    await borrow(api, f"{LABEL}:emea")
    assert (await give_back(api, f"{LABEL}:emea", "s1")).json() == {"returned": "s1"}
    assert listed(redis, f"available:{LABEL}") == ["s1"]


async def test_the_token_of_an_earlier_lease_ends_nothing(api, redis, lease):
    await give_back(api, LABEL, "s1", leaseToken=lease["leaseToken"])
    later = (await borrow(api, LABEL)).json()
    before = picture(redis, own=True)
    answer = await give_back(api, LABEL, "s1", leaseToken=lease["leaseToken"])
    assert answer.json() == {"returned": "s1", "note": "already returned"}
    after = picture(redis, own=True)
    assert {key: after[key] for key in before if key != "hub:store"} == {
        key: value for key, value in before.items() if key != "hub:store"
    }
    assert (await give_back(api, LABEL, "s1", leaseToken=later["leaseToken"])).json() == {"returned": "s1"}


async def test_a_wrong_token_does_not_end_a_lease(api, redis, lease):
    for token in ("0", "1", lease["leaseToken"][:-1], lease["leaseToken"] + "0", "x", f" {lease['leaseToken']}"):
        assert "note" in (await give_back(api, LABEL, "s1", leaseToken=token)).json()
        assert redis.exists("session:s1")
    assert "note" not in (await give_back(api, LABEL, "s1", leaseToken=int(lease["leaseToken"]))).json()


async def test_a_return_with_an_empty_token_counts_as_one_without_a_token(api, redis, lease):
    assert (await give_back(api, LABEL, "s1", leaseToken="")).json() == {"returned": "s1"}


async def test_the_answer_to_a_return_names_the_run_of_the_lease(api, lease):
    answer = await api.post("/session/return", json={"labelKey": LABEL, "browserId": "s1"})
    assert answer.headers["correlation-id"] == "r1"
    again = await api.post("/session/return", json={"labelKey": LABEL, "browserId": "s1"})
    assert "correlation-id" not in again.headers


async def test_a_return_ends_the_lease_although_the_node_removed_the_item(make_api, redis):
    async with make_api(borrow_concurrency_caps=f"{LABEL}=1") as api:
        await publish(api, "n1", **{LABEL: ["s1", "s2"]})
        await borrow(api, LABEL)
        redis.delete(f"inuse:{LABEL}")
        answer = await give_back(api, LABEL, "s1")
        assert answer.json() == {"returned": "s1", "note": "already returned"}
        assert not redis.exists("session:s1", "borrow_ttl:s1", "browser_run:s1")
        assert redis.exists("recycle:s1")
        assert listed(redis, f"available:{LABEL}") == ["s2"], "the node took it away; the hub must not bring it back"
        assert (await borrow(api, LABEL)).json()["browserId"] == "s2", "the cap has room again"


async def test_a_lent_item_without_a_session_can_be_returned(api, redis):
    push(redis, LABEL, ("s1", "n1"), lent=True)
    assert (await give_back(api, LABEL, "s1")).json() == {"returned": "s1"}
    assert listed(redis, f"available:{LABEL}") == ["s1"]
    assert not redis.exists(f"inuse:{LABEL}")
    assert redis.exists("recycle:s1")


FOREIGN = [
    ("by the pool of its session", {"labelKey": "a:b:c", "poolLabel": "a:b"}, "a:b:c"),
    ("by the label of its session", {"labelKey": "a:b"}, "z:z"),
    ("by the label of the call", {"labelKey": "z:z"}, "a:b"),
    ("once audited, in whatever pool it is", {"labelKey": "z:z"}, "y:y"),
    ("once audited, without a session", None, "y:y"),
]


@pytest.mark.parametrize(("session", "hint"), [row[1:] for row in FOREIGN], ids=[row[0] for row in FOREIGN])
async def test_a_slot_lent_by_another_program_can_be_returned(api, redis, session, hint):
    push(redis, "a:b", ("s0", "n1"), ("s1", "n1"), lent=True)
    if session:
        redis.hset("session:s1", mapping={"browserId": "s1", "runId": "r9", **session})
        redis.set("borrow_ttl:s1", "1", ex=900)
    if hint == "y:y":
        await api.post("/admin/sweep")
    answer = await give_back(api, hint, "s1")
    assert answer.json() == {"returned": "s1"}
    assert (listed(redis, "available:a:b"), listed(redis, "inuse:a:b")) == (["s1"], ["s0"])
    assert not redis.exists("session:s1")


async def test_items_are_moved_between_lists_byte_for_byte(api, redis):
    item = '{ "browserId" : "s1",\t"nodeId":"n1", "x": 1.50, "e": "\\u00e9" }'
    redis.rpush("available:a:b", item)
    assert (await borrow(api, "a:b")).json()["item"]["e"] == "é"
    assert redis.lrange("inuse:a:b", 0, -1) == [item]
    await give_back(api, "a:b", "s1")
    assert redis.lrange("available:a:b", 0, -1) == [item]


async def test_slot_id_may_replace_browser_id_in_bodies_and_items(api, redis):
    redis.rpush("available:a:b", '{"nodeId":"n1","slotId":"s1"}')
    assert (await borrow(api, "a:b")).json()["browserId"] == "s1"
    answer = await api.post("/session/return", json={"labelKey": "a:b", "slotId": "s1"})
    assert answer.json() == {"returned": "s1"}


async def test_a_slot_of_a_node_with_the_reuse_policy_gets_no_recycle_mark(api, redis):
    slots = [{"labelKey": "a:b", "slotId": "s1"}]
    await api.post("/node/register", json={"nodeId": "n1", "policy": "reuse", "slots": slots})
    await borrow(api, "a:b")
    for note in (None, "already returned"):
        assert (await give_back(api, "a:b", "s1")).json().get("note") == note
        assert not redis.exists("recycle:s1")


async def test_a_node_and_an_operator_may_return_a_slot_and_a_stranger_may_not(make_api):
    async with make_api(runner_secret="r", node_secret="n", admin_secret="a") as api:
        slots = [{"labelKey": "a:b", "slotId": "s1"}]
        await api.post("/node/register", json={"nodeId": "n1", "slots": slots}, headers={"x-hub-secret": "n"})
        body = {"labelKey": "a:b", "browserId": "s1"}
        status = {}
        for secret in ("", "x", "n", "r", "a"):
            await api.post("/session/borrow", json={"labelKey": "a:b"}, headers={"x-hub-secret": "r"})
            answer = await api.post("/session/return", json=body, headers={"x-hub-secret": secret})
            status[secret] = (answer.status_code, answer.json().get("note"))
        assert status == {"": (401, None), "x": (401, None), "n": (200, None), "r": (200, None), "a": (200, None)}


async def test_a_reported_test_is_stored_for_its_slot_and_its_run_only_if_the_slot_has_none(api, redis, lease):
    answer = await api.post("/results/browser/s1/test", json={"testId": " t1 ", "runId": "other"})
    assert answer.json() == {"mapped": "s1", "testId": "t1"}
    assert (redis.get("browser_test:s1"), redis.get("browser_run:s1")) == ("t1", "r1")
    assert redis.ttl("browser_test:s1") == pytest.approx(21600, abs=SLACK_S)
    await api.post("/results/browser/s2/test", json={"testId": "t2", "runId": "r2"})
    assert (redis.get("browser_test:s2"), redis.get("browser_run:s2")) == ("t2", "r2")
    refused = await api.post("/results/browser/s3/test", json={"testId": "  "})
    assert (refused.status_code, refused.json()["detail"]) == (400, "missing testId")
    assert not redis.exists("browser_test:s3")


async def test_a_return_with_only_run_ends_nothing_but_a_lease_of_that_run(api, redis):
    await publish(api, "n1", **{"a:b": ["s1"]})
    await borrow(api, "a:b", run="r1")
    said = {"labelKey": "a:b", "browserId": "s1", "onlyRun": True}
    for other in ({"runId": "r2"}, {}):
        answer = await api.post("/session/return", json={**said, **other})
        assert (answer.status_code, answer.json()) == (
            200, {"returned": "s1", "note": "already returned", "runId": ""},
        )  # fmt: skip
        assert redis.exists("session:s1")
    answer = await api.post("/session/return", json={**said, "runId": "r1"})
    assert answer.json() == {"returned": "s1", "runId": "r1"}
    assert not redis.exists("session:s1")


async def test_the_audit_log_has_the_reason_why_an_operator_ended_a_lease(api, redis):
    await publish(api, "n1", **{"a:b": ["s1"]})
    await borrow(api, "a:b", run="r1")
    said = {"labelKey": "a:b", "browserId": "s1", "revoke": True, "reason": "it hangs"}
    assert (await api.post("/session/return", json=said)).json() == {"returned": "s1", "runId": "r1"}
    [entry] = [json.loads(each) for each in redis.lrange("audit:entries", 0, -1) if "session.revoke" in each]
    assert entry["Details"] == {"slotId": "s1", "runId": "r1", "reason": "it hangs"}


async def test_revoking_a_lease_twice_does_not_end_the_grace_of_its_holder(api, lease):
    said = {"labelKey": LABEL, "browserId": "s1", "leaseToken": lease["leaseToken"]}
    for _ in range(2):
        await api.post("/session/return", json={**said, "revoke": True})
        assert (await borrow(api, LABEL)).status_code == 503
    await api.post("/session/return", json=said)  # the holder has stopped
    assert (await borrow(api, LABEL)).json()["browserId"] == "s1"

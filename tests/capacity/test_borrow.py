"""POST /session/borrow: the answer, what it leaves in Redis, in which order it refuses, and which slot it takes."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

import pytest

from hub.capacity.models import BorrowRequest, PublishedSlot, slot_item
from hub.observability import metrics
from tests.world import SLACK_S, add_node, borrow, give_back, listed, publish, push

LABEL = "Maps:Chromium:Prod"
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}Z")
GENERATED_RUN = re.compile(r"\d{17}-[0-9a-f]{32}")


async def test_the_answer_to_a_borrow_has_every_member_of_the_contract(api):
    slot = {
        "labelKey": LABEL, "slotId": "s1", "webSocketEndpoint": "ws://n1/s1", "browserType": "chromium",
        "browserVersion": "126", "args": "--x", "labels": {"region": "eu"}, "gpuMemory": 80,
    }  # fmt: skip
    await api.post("/node/register", json={"nodeId": "blade-9", "slots": [slot]})
    before = datetime.now(UTC)
    answer = await borrow(api, f"{LABEL}:emea", run="run-7", runName="  Nightly 1.2_b-c ", ttlSeconds=120)
    lease = answer.json()
    ends = datetime.fromisoformat(lease.pop("expiresAtUtc"))
    assert 119 <= (ends - before).total_seconds() <= 120 + (datetime.now(UTC) - before).total_seconds()
    assert lease.pop("leaseToken").isdigit()
    assert lease == {
        "browserId": "s1",
        "webSocketEndpoint": "ws://n1/s1",
        "labelKey": f"{LABEL}:emea",
        "browserType": "chromium",
        "nodeId": "blade-9",
        "runName": "Nightly 1.2_b-c",
        "holder": {"user": None, "team": None, "name": "Nightly 1.2_b-c", "client": "127.0.0.1"},
        "matchedLabel": LABEL,
        "ttlSeconds": 120,
        "runId": "run-7",
        "item": {
            "nodeId": "blade-9", "browserId": "s1", "webSocketEndpoint": "ws://n1/s1", "browserType": "chromium",
            "browserVersion": "126", "args": "--x", "labels": {"region": "eu"}, "gpuMemory": 80,
        },
    }  # fmt: skip
    assert answer.headers["correlation-id"] == "run-7"


async def test_a_minimal_item_of_another_program_is_lent_with_null_for_missing_members(api, redis):
    push(redis, LABEL, ("s1", "n7"))
    lease = (await borrow(api, LABEL)).json()
    assert {name: lease[name] for name in ("webSocketEndpoint", "browserType", "nodeId", "runName")} == {
        "webSocketEndpoint": "", "browserType": None, "nodeId": "n7", "runName": None
    }  # fmt: skip
    assert lease["item"] == {"nodeId": "n7", "browserId": "s1"}


async def test_a_borrow_writes_session_footprint_and_mappings_with_one_time(make_api, redis):
    async with make_api(idle_timeout_s=120) as api:
        push(redis, LABEL, ("s1", "n1"))
        item = redis.lindex(f"available:{LABEL}", 0)
        lease = (await borrow(api, f"{LABEL}:emea", run="r1")).json()
    session = redis.hgetall("session:s1")
    assert TIME.fullmatch(session.pop("borrowedAtUtc"))
    assert json.loads(session.pop("holder")) == {
        "user": None, "team": None, "name": "127.0.0.1", "client": "127.0.0.1",
    }  # fmt: skip
    assert session == {
        "browserId": "s1", "labelKey": f"{LABEL}:emea", "runId": "r1", "nodeId": "n1", "ttlSeconds": "900",
        "poolLabel": LABEL, "leaseToken": lease["leaseToken"],
    }  # fmt: skip
    assert redis.lrange(f"inuse:{LABEL}", 0, -1) == [item]
    assert not redis.exists(f"available:{LABEL}")
    assert [redis.get(key) for key in ("borrow_ttl:s1", "borrow_idle:s1", "browser_run:s1")] == ["1", "1", "r1"]
    lives_s = {key: redis.pttl(key) / 1000 for key in ("borrow_ttl:s1", "borrow_idle:s1", "browser_run:s1")}
    assert lives_s == pytest.approx({"borrow_ttl:s1": 900, "borrow_idle:s1": 120, "browser_run:s1": 21600}, abs=SLACK_S)
    assert redis.ttl("session:s1") == -1


async def test_a_borrow_writes_no_idle_key_when_the_idle_rule_is_off(api, redis):
    await publish(api, "n1", **{LABEL: ["s1"]})
    await borrow(api, LABEL)
    assert redis.exists("session:s1")
    assert not redis.exists("borrow_idle:s1")


@pytest.mark.parametrize(
    ("own", "hub", "lives_s"),
    [(30, 120, 30), (0, 120, 900), (None, 120, 120), (30, 0, 30), (0, 0, None), ("x", 120, 120)],
)
async def test_a_slot_may_set_its_own_idle_rule(make_api, redis, own, hub, lives_s):
    async with make_api(idle_timeout_s=hub) as api:
        item = {"nodeId": "n1", "browserId": "s1"} | ({} if own is None else {"idleTimeoutSeconds": own})
        redis.rpush(f"available:{LABEL}", json.dumps(item))
        assert (await borrow(api, LABEL)).status_code == 200
    if lives_s is None:
        assert not redis.exists("borrow_idle:s1")
    else:
        assert redis.pttl("borrow_idle:s1") / 1000 == pytest.approx(lives_s, abs=SLACK_S)


@pytest.mark.parametrize(
    ("asked", "lease_s"),
    [
        (5, 60), (100_000, 86_400), ("abc", 900), ("120", 120), (120, 120), (90.5, 90.5), ("90.5", 90.5), (None, 900),
        (-1, 60), (0, 60), (True, 900), ([], 900), ({}, 900), ("", 900), ("NaN", 900), ("inf", 900), (1e300, 86_400),
    ],
)  # fmt: skip
async def test_the_length_of_a_lease_is_clamped_and_an_unreadable_one_is_the_default(api, redis, asked, lease_s):
    await publish(api, "n1", **{LABEL: ["s1"]})
    answer = await borrow(api, LABEL, ttlSeconds=asked)
    assert answer.json()["ttlSeconds"] == lease_s
    assert redis.pttl("borrow_ttl:s1") / 1000 == pytest.approx(lease_s, abs=SLACK_S)
    assert float(redis.hget("session:s1", "ttlSeconds")) == lease_s


async def test_no_lease_is_longer_than_the_longest_session(make_api):
    async with make_api(max_session_ttl_s=300) as api:
        await publish(api, "n1", **{LABEL: ["s1", "s2"]})
        assert [(await borrow(api, LABEL, **more)).json()["ttlSeconds"] for more in ({"ttlSeconds": 400}, {})] == [
            300
        ] * 2


RUN_NAMES = [
    ("plain", "Nightly 1.2_b-c", "Nightly 1.2_b-c"),
    ("trimmed", "  x  ", "x"),
    ("absent", None, None),
    ("empty", "", None),
    ("blanks", "   ", None),
    ("128 characters", "x" * 128, "x" * 128),
    ("129 characters", "x" * 129, "128"),
    ("128 and blanks around", f" {'x' * 128} ", "x" * 128),
    ("an inner tab", "a\tb", "control"),
    ("a NUL", "a\0b", "control"),
    ("long before control", "x" * 128 + "\t" + "x", "128"),
    ("control before letters", "é\tx", "control"),
    ("a hash", "run #7", "letters"),
    ("beyond ASCII", "été", "letters"),
    ("a slash", "a/b", "letters"),
    ("a number", 7, "7"),
]


@pytest.mark.parametrize(("given", "expected"), [row[1:] for row in RUN_NAMES], ids=[row[0] for row in RUN_NAMES])
async def test_a_run_name_is_normalised_or_refused(api, redis, given, expected):
    await publish(api, "n1", **{LABEL: ["s1"]})
    answer = await borrow(api, LABEL, runName=given)
    if expected in ("128", "control", "letters"):
        assert (answer.status_code, answer.json()["member"]) == (400, "runName")
        assert expected in answer.json()["detail"]
        assert not redis.exists("session:s1")
    else:
        assert answer.json()["runName"] == expected


RUN_SOURCES = [
    ("x-run-id wins", {"x-run-id": "h", "correlation-id": "c"}, "?runId=q", {"runId": "b"}, "h"),
    ("then the query", {"correlation-id": "c"}, "?runId=q", {"runId": "b"}, "q"),
    ("then Correlation-Id", {"correlation-id": "c"}, "", {"runId": "b"}, "c"),
    ("then the body", {}, "", {"runId": "b"}, "b"),
    ("blank ones count as absent", {"x-run-id": " ", "correlation-id": " "}, "?runId=%20", {"runId": "b"}, "b"),
    ("numbers in the body", {}, "", {"runId": 7}, "7"),
]


@pytest.mark.parametrize(
    ("headers", "query", "body", "run"), [r[1:] for r in RUN_SOURCES], ids=[r[0] for r in RUN_SOURCES]
)
async def test_the_run_id_is_read_from_the_first_place_that_has_one(api, redis, headers, query, body, run):
    await publish(api, "n1", **{LABEL: ["s1"]})
    answer = await api.post(f"/session/borrow{query}", json={"labelKey": LABEL, **body}, headers=headers)
    assert answer.headers["correlation-id"] == run
    assert (redis.get("browser_run:s1"), redis.hget("session:s1", "runId")) == (run, run)


async def test_a_borrow_without_a_run_gets_a_new_run(api, redis):
    await publish(api, "n1", **{LABEL: ["s1", "s2"]})
    runs = [(await borrow(api, LABEL, run="")).headers["correlation-id"] for _ in range(2)]
    assert all(GENERATED_RUN.fullmatch(run) for run in runs)
    assert runs[0] != runs[1]
    assert redis.get("browser_run:s1") == runs[0]


@pytest.mark.parametrize("run", ["x" * 201, "a\u00a0b"])
async def test_a_run_id_that_cannot_be_part_of_a_key_is_refused(api, redis, run):
    await publish(api, "n1", **{LABEL: ["s1"]})
    answer = await api.post("/session/borrow", json={"labelKey": LABEL, "runId": run})
    assert (answer.status_code, answer.json()["member"]) == (400, "runId")
    assert not redis.exists("session:s1")


ORDER = [
    ("size before secret", b"x" * 70_000, "wrong", 413, "too-large"),
    ("secret before JSON", b"{", "wrong", 401, "unauthorized"),
    ("JSON before label", b"{", "right", 400, "invalid-json"),
    ("label before run name", b'{"labelKey":"::","runName":"#"}', "right", 400, "invalid-label"),
    ("a missing label before a bad run name", b'{"runName":"#"}', "right", 400, "missing-member"),
    ("run name before capacity", b'{"labelKey":"no:such","runName":"#"}', "right", 400, "invalid-value"),
    ("then capacity", b'{"labelKey":"no:such"}', "right", 503, "no-capacity"),
]


@pytest.mark.parametrize(
    ("body", "secret", "status", "code"), [row[1:] for row in ORDER], ids=[row[0] for row in ORDER]
)
async def test_a_borrow_with_several_faults_is_refused_for_the_first_in_the_order_of_the_contract(
    make_api, body, secret, status, code
):
    async with make_api(runner_secret="right", node_secret="node") as api:
        answer = await api.post("/session/borrow", content=body, headers={"x-hub-secret": secret})
        assert (answer.status_code, answer.json()["code"]) == (status, code)


@pytest.mark.parametrize("label", [None, ""])
async def test_a_missing_label_is_named_in_the_refusal(api, label):
    answer = await api.post("/session/borrow", json={} if label is None else {"labelKey": label})
    assert (answer.status_code, answer.json()["detail"]) == (400, "missing labelKey")


async def test_the_slot_that_has_been_free_longest_is_lent_first_from_any_node(api, redis):
    name = f"available:{LABEL}"
    await publish(api, "n1", **{LABEL: ["a", "b"]})
    await publish(api, "n2", **{LABEL: ["c"]})
    seen = [listed(redis, name)]
    for step in ("borrow", "borrow", "return a", "borrow"):
        if step == "borrow":
            redis.delete("recycle:a")  # replaced by its node meanwhile; a marked slot would be lent last
            taken = (await borrow(api, LABEL)).json()["browserId"]
            seen.append((taken, listed(redis, name)))
        else:
            await give_back(api, LABEL, "a")
            seen.append(listed(redis, name))
    assert seen == [["a", "b", "c"], ("a", ["b", "c"]), ("b", ["c"]), ["c", "a"], ("c", ["a"])]


async def test_a_slot_with_a_recycle_marker_is_lent_last(api, redis):
    await publish(api, "n1", **{LABEL: ["a", "b", "c"]})
    redis.set("recycle:a", "1")
    redis.set("recycle:b", "1")
    assert [(await borrow(api, LABEL)).json()["browserId"] for _ in range(3)] == ["c", "a", "b"]


async def test_a_marked_slot_is_lent_last_in_a_long_pool_too(api, redis):
    slots = [f"s{n:03}" for n in range(100)]
    await publish(api, "n1", **{LABEL: slots})
    for slot in slots[:90]:
        redis.set(f"recycle:{slot}", "1")
    taken = [(await borrow(api, LABEL)).json()["browserId"] for _ in range(10)]
    assert sorted(taken) == slots[90:]
    assert len(listed(redis, f"available:{LABEL}")) == 90


async def test_tokens_rise_from_grant_to_grant(api):
    await publish(api, "n1", **{LABEL: ["s1", "s2"]})
    tokens = []
    for _ in range(6):
        lease = (await borrow(api, LABEL)).json()
        tokens.append(int(lease["leaseToken"]))
        await give_back(api, LABEL, lease["browserId"])
    assert tokens == sorted(set(tokens))


async def test_a_borrow_sent_as_plain_text_is_read_and_a_member_in_the_wrong_case_is_not(api):
    await publish(api, "n1", **{"a:7": ["s1"], "true:b": ["s2"]})
    plain = await api.post(
        "/session/borrow", content=b'{"labelKey":"a:7","extra":[1,{"x":null}]}', headers={"content-type": "text/plain"}
    )
    assert plain.json()["browserId"] == "s1"
    wrong_case = await api.post("/session/borrow", json={"LabelKey": "true:b"})
    assert wrong_case.json()["detail"] == "missing labelKey"


async def test_tokens_rise_by_one_also_where_their_lower_digits_overflow(hub, redis):
    await add_node(hub, "n1")
    slots = [PublishedSlot(f"s{n}", "a:b", slot_item("n1", f"s{n}", "kind", {})) for n in range(3)]
    await hub.pools.publish("n1", slots, "reuse")
    redis.hset("hub:store", "token", "1882451547999999998")
    requests = [BorrowRequest("a:b", 900_000, "r", f"try-{n}", f"try-{n}", "f", 60) for n in range(3)]
    tokens = [(await hub.leases.borrow(wanted)).token for wanted in requests]
    assert tokens == ["1882451547999999999", "1882451548000000000", "1882451548000000001"]


async def test_a_borrow_refused_before_its_label_is_known_is_counted_as_denied(make_api):
    counter = metrics.borrow_outcomes.labels("unknown", "denied")
    counted = []
    async with make_api(runner_secret="runner-x", node_secret="node-x") as api:
        for secret, content in (
            ("wrong", b'{"labelKey":"gpu:a"}'), ("runner-x", b"{}"), ("runner-x", b'{"labelKey":"gpu"}'),
            ("runner-x", b"{"),
        ):  # fmt: skip
            before = counter._value.get()
            answer = await api.post("/session/borrow", content=content, headers={"x-hub-secret": secret})
            counted.append((answer.status_code, counter._value.get() - before))
    assert counted == [(401, 1), (400, 1), (400, 1), (400, 0)]

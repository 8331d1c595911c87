"""NodeSweeperService: the decision table, expiry and what it leaves, refresh when expiry is off, and its switches."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta

import pytest

from hub.core import Hub
from hub.store.connection import open_store
from hub.store.library import modules
from tests.world import SLACK_S, age_node, borrow, end_graces, listed, picture, publish, push, settings_for, sweepers

LABEL = "Pay:Chromium:Prod"


def ago(seconds: float, digits: int = 7) -> str:
    moment = datetime.now(UTC) - timedelta(seconds=seconds)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f") + {6: "Z", 7: "0Z"}[digits]


async def sweep(hub, **options):
    nodes, _ = sweepers(hub)
    done = await nodes.sweep(**options)
    assert done.errors == 0
    return done


@pytest.fixture
async def keeping_hub(redis_server):
    """A hub that never expires: the default."""
    settings = settings_for(redis_server.url, sweeper_expire=False)
    async with open_store(settings) as store:
        yield Hub(store, settings)


# alive key, LastSeen (seconds ago, text, None: no such field), expiry on, a free item, hash there: what becomes of it
TABLE = [
    ("S1", True, 3600, True, True, True, "untouched"),
    ("S2", False, 20, True, False, True, "untouched"),
    ("S3", False, 50, True, False, True, "untouched"),  # the bound itself is below, on a clock that stands still
    ("S4", False, 61, True, False, True, "expired"),
    ("S5", False, None, True, False, True, "expired"),
    ("S6", False, "yesterday", True, False, True, "expired"),
    ("S7", False, -3, True, False, True, "untouched"),
    ("S8", False, -600, True, False, True, "untouched"),
    ("S9", False, 300, True, True, True, "expired"),
    ("S10", False, 300, False, False, True, "refreshed"),
    ("S11", False, 300, False, True, True, "refreshed"),
    ("S13", False, "six digits", True, False, True, "untouched"),
    ("S14", False, None, True, False, False, "expired"),
]


@pytest.mark.parametrize("heard", [False, True], ids=["of another program", "heard by a hub"])
@pytest.mark.parametrize(
    ("alive", "seen", "expire", "item", "hashed", "result"), [r[1:] for r in TABLE], ids=[r[0] for r in TABLE]
)
async def test_the_sweeper_decides_about_each_node_as_the_decision_table_says(
    hub, keeping_hub, redis, heard, alive, seen, expire, item, hashed, result
):
    redis.sadd("nodes", "n1")
    if hashed:
        redis.hset("node:n1", "Capacity", "1")
    if seen is not None:
        text = seen if seen == "yesterday" else ago(10, 6) if seen == "six digits" else ago(seen)
        redis.hset("node:n1", "LastSeen", text)
    if alive:
        redis.set("node_alive:n1", "1", ex=90)
    if item:
        push(redis, LABEL, ("s1", "n1"))
    if heard:
        redis.zadd("hub:beats", {"n1": int(redis.hget("hub:store", "clock_ms")) - 3_600_000})
    before = picture(redis)
    done = await sweep(hub if expire else keeping_hub)
    assert done.scanned == 1
    assert (done.expired, done.refreshed) == (int(result == "expired"), int(result == "refreshed"))
    after = picture(redis)
    if result == "untouched":
        assert after == before
    elif result == "refreshed":
        assert after == {**before, "node_alive:n1": "1"}
        assert 30 - SLACK_S <= redis.ttl("node_alive:n1") <= 30
    else:
        after.pop("audit:entries", None)
        assert after == ({"recycle:s1": "1"} if item else {})
        assert not redis.keys("hub:*:n1")
        assert redis.zscore("hub:beats", "n1") is None
        assert not item or 300 - SLACK_S <= redis.ttl("recycle:s1") <= 300


async def test_s12_a_node_whose_alive_key_appears_before_the_second_check_is_untouched(hub, redis, monkeypatch):
    redis.sadd("nodes", "n1")
    push(redis, LABEL, ("s1", "n1"))
    real = hub.nodes.expire

    async def late(*given):
        redis.set("node_alive:n1", "1")
        return await real(*given)

    monkeypatch.setattr(hub.nodes, "expire", late)
    assert (await sweep(hub)).expired == 0
    assert (redis.smembers("nodes"), listed(redis, f"available:{LABEL}")) == ({"n1"}, ["s1"])


async def test_s12_a_heartbeat_before_the_second_check_keeps_the_node(api, hub, redis, monkeypatch):
    await publish(api, "n1", **{LABEL: ["s1"]})
    age_node(redis, "n1", 3600)
    real = hub.nodes.expire

    async def late(*given):
        assert (await api.post("/node/heartbeat", json={"nodeId": "n1"})).json()["known"]
        return await real(*given)

    monkeypatch.setattr(hub.nodes, "expire", late)
    assert (await sweep(hub)).expired == 0
    assert listed(redis, f"available:{LABEL}") == ["s1"]


@pytest.mark.parametrize(
    ("age_ms", "reading_age_ms", "word"),
    [
        (60_000, None, "fresh"), (60_001, None, "stale"), (60_001, 60_000, "fresh"), (60_001, 60_001, "stale"),
        (-1, None, "ahead"), (0, None, "fresh"), (3_600_000, 30_000, "fresh"),
    ],
)  # fmt: skip
def test_a_node_silent_for_exactly_the_timeout_is_not_stale(redis, age_ms, reading_age_ms, word):
    now_ms, clock_ms = 1_763_694_000_000, 5_000_000
    seen = datetime.fromtimestamp((now_ms - age_ms) / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f") + "0Z"
    redis.hset("node:n1", "LastSeen", seen)
    if reading_age_ms is not None:
        redis.zadd("beats", {"n1": clock_ms - reading_age_ms})
    script = f"""
    local store, keys = {{now_ms = {now_ms}, clock_ms = {clock_ms}}}, {{beats = 'beats'}}
    function keys.node(id) return 'node:' .. id end
    function keys.node_alive(id) return 'node_alive:' .. id end
    {modules("times", "liveness")}
    return {{liveness.of('n1', 'n1', 60000)}}
    """
    assert redis.eval(script, 0) == [word, seen]


async def test_the_expiry_of_a_node_removes_exactly_what_the_example_lists(make_api, redis, hub):
    async with make_api(borrow_concurrency_caps=f"{LABEL}:emea=1") as api:
        await publish(api, "blade-30")
        await publish(api, "blade-3", **{LABEL: ["s3"]})
        assert (await borrow(api, f"{LABEL}:emea", run="r3")).json()["browserId"] == "s3"
        await api.post("/results/browser/s3/test", json={"testId": "t3"})
        await publish(api, "blade-30", **{LABEL: ["s1"]})
        await publish(api, "blade-3", **{LABEL: ["s2"]})
        assert (await borrow(api, f"{LABEL}:emea")).json()["code"] == "capped"
        age_node(redis, "blade-3", 300)
        done = await sweep(hub)
        assert (done.scanned, done.expired, done.errors, done.slots, done.ended) == (2, 1, 0, 2, 1)
        assert (redis.smembers("nodes"), redis.exists("node:blade-3")) == ({"blade-30"}, 0)
        assert (listed(redis, f"available:{LABEL}"), redis.exists(f"inuse:{LABEL}")) == (["s1"], 0)
        left = [key for key in redis.keys("*:s3") + redis.keys("*:s2") if not key.startswith("recycle:")]
        assert left == ["hub:end_reason:s3"], "it tells the holder why, for ten minutes"
        assert 600 - SLACK_S <= redis.ttl(left[0]) <= 600
        assert all(300 - SLACK_S <= redis.ttl(f"recycle:{slot}") <= 300 for slot in ("s2", "s3"))
        assert not redis.exists("recycle:s1")
        assert (await borrow(api, f"{LABEL}:emea")).json()["browserId"] == "s1", "the cap has room again"


async def test_items_of_a_dead_node_are_found_in_every_form(hub, redis):
    redis.sadd("nodes", "n1")
    ours = [
        '{"nodeId":"n1","browserId":"s1"}',
        '{ "browserId" : "s2", "nodeId" : "n1" }',
        'x "nodeId":"n1" "browserId":"s3"',
    ]
    others = [
        '{"nodeId":"n10","browserId":"t1"}', '{"nodeId":"other","browserId":"t2","x":"\\"nodeId\\":\\"n1\\""}',
        '{"x":{"nodeId":"n1"},"nodeId":"n2","browserId":"t3"}',
    ]  # fmt: skip
    redis.rpush("available:a:b", *ours, *others)
    redis.rpush("inuse:a:b", ours[0].replace("s1", "s4"), others[0].replace("t1", "t4"), '{"nodeId":"n1"}')
    await sweep(hub)
    assert redis.lrange("available:a:b", 0, -1) == others
    assert redis.lrange("inuse:a:b", 0, -1) == [others[0].replace("t1", "t4")]


async def test_an_item_without_a_node_is_not_removed(hub, redis):
    redis.sadd("nodes", "n1")
    redis.rpush("available:a:b", "garbage")
    redis.rpush("inuse:a:b", "garbage")
    assert (await sweep(hub)).expired == 1
    assert (redis.lrange("available:a:b", 0, -1), redis.lrange("inuse:a:b", 0, -1)) == (["garbage"], ["garbage"])


async def test_a_setting_keeps_silent_nodes_that_have_free_slots(redis_server, redis):
    settings = settings_for(redis_server.url, sweeper_keep_if_available=True)
    async with open_store(settings) as store:
        redis.sadd("nodes", "n1", "n2")
        push(redis, LABEL, ("s1", "n1"))
        push(redis, LABEL, ("s2", "n2"), lent=True)
        done = await sweep(Hub(store, settings))
    assert (done.expired, done.refreshed, redis.smembers("nodes")) == (1, 1, {"n1"})
    assert 30 - SLACK_S <= redis.ttl("node_alive:n1") <= 30


async def test_a_kept_node_is_checked_again_after_thirty_seconds(keeping_hub, hub, redis):
    redis.sadd("nodes", "n1")
    assert (await sweep(keeping_hub)).refreshed == 1
    assert (await sweep(keeping_hub)).refreshed == 0
    redis.delete("node_alive:n1")
    assert (await sweep(hub)).expired == 1


async def test_a_dry_run_names_the_stale_nodes_and_changes_nothing(api, hub, redis):
    await publish(api, "n1", **{LABEL: ["s1"]})
    push(redis, "x:y", ("t1", "n2"))
    age_node(redis, "n1", 300)
    before = picture(redis, own=True)
    done = await sweep(hub, dry_run=True)
    assert (done.scanned, done.stale, done.expired, done.names) == (1, 1, 0, ["n1"])
    assert picture(redis, own=True) == before


@pytest.mark.parametrize(("switch", "word"), [(True, "expired"), (False, "refreshed"), (None, "refreshed")])
async def test_the_run_time_switch_wins_over_the_setting_on_every_hub(make_api, redis, keeping_hub, switch, word):
    async with make_api(sweeper_expire=False) as api:
        assert (await api.put("/admin/sweeper", json={"expire": not switch})).status_code == 200
        state = (await api.put("/admin/sweeper", json={"expire": switch, "by": "ann"})).json()
        assert (state["expire"], state["setting"]) == (bool(switch), False)
        assert state["source"] == ("setting" if switch is None else "run-time")
        assert (state["setBy"], bool(state["setAtUtc"])) == (None if switch is None else "ann", switch is not None)
        assert (await api.get("/admin/sweeper")).json() == state
        redis.sadd("nodes", "n1")
        await keeping_hub.clock.tick()
        done = await sweep(keeping_hub)
        assert {"expired": done.expired, "refreshed": done.refreshed}[word] == 1
        redis.sadd("nodes", "n2")
        swept = (await api.post("/admin/sweep", json={})).json()["nodes"]
        assert swept[word] == 1


@pytest.mark.parametrize("body", [{}, {"expire": "true"}, {"expire": 1}, {"expire": []}])
async def test_the_expiry_switch_accepts_true_false_and_null(api, redis, body):
    answer = await api.put("/admin/sweeper", json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid-value")
    assert redis.hget("hub:store", "expire") is None


async def test_after_an_outage_nodes_get_time_to_be_heard_again(hub, redis):
    redis.sadd("nodes", "n1")
    hub.clock._last_outage = (12.0, time.monotonic() - 20)
    assert (await sweep(hub)).refreshed == 1
    redis.delete("node_alive:n1")
    hub.clock._last_outage = (12.0, time.monotonic() - 31)
    assert (await sweep(hub)).expired == 1
    redis.sadd("nodes", "n1")
    hub.clock._last_outage = (9.0, time.monotonic())
    assert (await sweep(hub)).expired == 1


async def test_an_expired_node_that_comes_back_is_told_to_start_afresh(api, hub, redis):
    await publish(api, "n1", **{LABEL: ["s1"]})
    await borrow(api, LABEL)
    age_node(redis, "n1", 300)
    await sweep(hub)
    answer = (await api.post("/node/heartbeat", json={"nodeId": "n1", "version": 3})).json()
    assert (answer["known"], redis.smembers("nodes")) == (False, set())
    await publish(api, "n1", **{LABEL: ["s1"]})
    await end_graces(hub)
    assert (await borrow(api, LABEL)).json()["browserId"] == "s1"


async def test_a_node_that_writes_its_heartbeats_into_redis_itself_is_kept(hub, redis):
    redis.sadd("nodes", "n1")
    redis.hset("node:n1", "LastSeen", ago(0))
    redis.set("node_alive:n1", "1", ex=90)
    assert (await sweep(hub)).expired == 0
    redis.delete("node_alive:n1")
    redis.hset("node:n1", "LastSeen", ago(61))
    assert (await sweep(hub)).expired == 1


async def test_an_unreadable_node_does_not_keep_other_silent_nodes_from_being_expired(hub, redis):
    redis.sadd("nodes", "bad", "n1")
    redis.set("node:bad", "a string where a hash should be")
    nodes, _ = sweepers(hub)
    done = await nodes.sweep()
    assert (done.scanned, done.expired, done.errors) == (2, 1, 1)
    assert redis.smembers("nodes") == {"bad"}


async def test_many_silent_nodes_with_many_slots_are_removed_in_one_pass(api, redis_server, redis):
    for n in range(30):
        await api.post("/node/register", json={"nodeId": f"n{n}", "pools": {LABEL: 5, f"p:{n}": 100}})
    for _ in range(40):
        await borrow(api, LABEL)
    for n in range(30):
        age_node(redis, f"n{n}", 300)
    settings = settings_for(redis_server.url, sweeper_brake_percent=100)
    async with open_store(settings) as store:
        hub = Hub(store, settings)
        done = await sweep(hub)
        await end_graces(hub)
    assert (done.scanned, done.expired, done.slots, done.ended) == (30, 30, 3150, 40)
    left = {key.split(":")[0] for key in redis.keys("*") if not key.startswith("hub:")}
    assert left <= {"recycle", "audit"}
    own = {key for key in redis.keys("hub:*") if not key.startswith(("hub:request:", "hub:end_reason:"))}
    assert own - {"hub:hubs", "hub:ended", "hub:usage_ended"} == {
        "hub:store",
        "hub:history",
    }  # by now the hub may have ticked
    assert len(redis.keys("hub:end_reason:*")) == 40


async def test_the_expiry_of_a_node_is_written_into_the_audit_log(api, hub, redis):
    await publish(api, "n1", **{LABEL: ["s1"]})
    age_node(redis, "n1", 300)
    await sweep(hub)
    latest = json.loads(redis.lindex("audit:entries", 0))
    assert (latest["Category"], latest["Action"], latest["Details"]["nodeId"]) == ("node", "node.expired", "n1")


async def test_a_node_whose_clock_is_ahead_is_logged_once(hub, redis, caplog):
    redis.sadd("nodes", "n1")
    redis.hset("node:n1", "LastSeen", ago(-600))
    nodes, _ = sweepers(hub)
    for _ in range(3):
        await nodes.sweep()
    told = [record for record in caplog.records if "node clock ahead" in str(record.msg)]
    assert (len(told), redis.smembers("nodes")) == (1, {"n1"})


async def test_a_node_whose_clock_is_seconds_ahead_is_not_logged(hub, redis, caplog):
    redis.sadd("nodes", "n1")
    redis.hset("node:n1", "LastSeen", ago(-3))
    await sweep(hub)
    assert "node clock ahead" not in caplog.text

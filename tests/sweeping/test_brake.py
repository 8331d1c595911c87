"""The brake: very many nodes are silent at once, so the sweeper suspects itself; at first it removes none, then few."""

from __future__ import annotations

import time

import pytest

from hub.api.operators.admin import brake_shape
from hub.core import Hub
from hub.doctor import examine
from hub.store.connection import open_store
from hub.sweeping import nodes as sweeping
from hub.sweeping.brake import Brake, BrakeOff, Nominated, per_interval, stale_in_all, too_many, why_none_goes
from tests.world import add_node, age_node, picture, settings_for, sweepers


async def fleet(hub, redis, count, silent):
    """`count` nodes, n00, n01, ..., of which the first `silent` have not beaten for five minutes."""
    names = [f"n{number:02}" for number in range(count)]
    for name in names:
        await add_node(hub, name)
    for name in names[:silent]:
        age_node(redis, name, 300)
    return names


async def sweep(hub, **options):
    """(stale, expired, held back, brake) of a pass."""
    nodes, _ = sweepers(hub)
    done = await nodes.sweep(**options)
    assert done.errors == 0
    return done.stale, done.expired, done.held, done.brake


def next_interval(redis):
    """Make the interval in which the brake has let nodes go a past one."""
    if redis.exists("hub:brake"):
        redis.hincrby("hub:brake", "window", -21_000)  # it may have begun up to a second after the last tick


def end_grace(redis):
    """Make the time that nodes have to be heard again a past one."""
    redis.hincrby("hub:brake", "since_ms", -62_000)


async def engage(hub, redis):
    """The pass that engages the brake lets no node go; then the grace is over."""
    stale, expired, held, brake = await sweep(hub)
    assert (expired, held, brake) == (0, stale, "engaged")
    end_grace(redis)


def told(caplog):
    """Return the lines of the brake, in order."""
    return [record.msg["event"] for record in caplog.records if str(record.msg["event"]).startswith("brake")]


async def status(hub):
    return await brake_shape(Brake(hub.store, hub.settings))


@pytest.mark.parametrize(
    ("stale", "registered", "percent", "minimum", "suspicious"),
    [
        (2, 10, 20, 3, False), (3, 10, 20, 3, True), (20, 100, 20, 3, False), (21, 100, 20, 3, True),
        (2, 2, 20, 3, False), (3, 3, 20, 3, True), (3, 3, 20, 4, False), (1, 100, 1, 1, False), (2, 100, 1, 1, True),
        (10, 10, 100, 1, False), (0, 0, 20, 1, False), (200_000, 1_000_000, 20, 3, False),
        (200_001, 1_000_000, 20, 3, True),
    ],
)  # fmt: skip
def test_the_brake_engages_above_its_share_and_its_minimum_of_silent_nodes(
    stale, registered, percent, minimum, suspicious
):
    assert too_many(stale, registered, percent, minimum) is suspicious


@pytest.mark.parametrize(
    ("registered", "percent", "most"), [(10, 20, 2), (9, 20, 1), (3, 20, 1), (1, 1, 1), (1000, 33, 330)]
)
def test_the_brake_lets_its_limit_of_nodes_but_at_least_one_be_removed_per_interval(registered, percent, most):
    assert per_interval(registered, percent) == most


@pytest.mark.parametrize(
    ("stale", "registered", "grace_left_ms", "why"),
    [
        (3, 10, 59_001, "nodes that are alive have 60 s to be heard again"),
        (3, 10, 1, "nodes that are alive have 1 s to be heard again"), (3, 10, 0, None),
        (10, 10, 60_000, "nobody at all is heard, so it may be the hub that is deaf"),
        (10, 10, 0, "nobody at all is heard, so it may be the hub that is deaf"), (9, 10, 0, None),
    ],
)  # fmt: skip
def test_operators_are_told_why_the_brake_removes_no_node(stale, registered, grace_left_ms, why):
    assert why_none_goes(stale, registered, grace_left_ms) == why


async def test_in_the_first_timeout_after_the_brake_engaged_no_node_is_removed(hub, settings, redis, caplog):
    await fleet(hub, redis, 10, 3)
    before = picture(redis)
    assert await sweep(hub) == (3, 0, 3, "engaged")
    (line,) = (record.msg for record in caplog.records if record.msg["event"] == "brake engaged")
    assert {name: line[name] for name in ("stale", "registered", "percent", "per_interval", "grace_s", "why")} == {
        "stale": 3, "registered": 10, "percent": 20, "per_interval": 2, "grace_s": 60,
        "why": "nodes that are alive have 60 s to be heard again",
    }  # fmt: skip
    shown = await status(hub)
    assert (shown["state"], shown["stale"], shown["registered"]) == ("engaged", 3, 10)
    assert (shown["perInterval"], shown["heldBack"]) == (2, 3)
    assert (shown["graceSecondsLeft"], shown["why"]) == (60, "nodes that are alive have 60 s to be heard again")
    async with open_store(settings) as store:  # the leading hub dies, and another one takes over
        redis.hincrby("hub:brake", "since_ms", -50_000)
        next_interval(redis)
        assert await sweep(Hub(store, settings)) == (3, 0, 3, "engaged")
        assert 9 <= (await brake_shape(Brake(store, settings)))["graceSecondsLeft"] <= 11
    assert picture(redis) == before
    assert told(caplog) == ["brake engaged"]


async def test_a_third_of_a_fleet_that_is_heard_again_within_the_timeout_loses_no_node(hub, redis, caplog):
    names = await fleet(hub, redis, 60, 20)
    assert await sweep(hub) == (20, 0, 20, "engaged")
    for name in names[:20]:
        await add_node(hub, name)
    next_interval(redis)
    assert await sweep(hub) == (0, 0, 0, "off")
    assert redis.smembers("nodes") == set(names)
    assert told(caplog) == ["brake engaged", "brake ended"]


async def test_after_the_timeout_a_silent_third_of_a_fleet_is_removed_at_the_limit(hub, redis):
    names = await fleet(hub, redis, 60, 20)
    await engage(hub, redis)
    assert await sweep(hub) == (20, 12, 8, "engaged")
    assert ((await status(hub))["graceSecondsLeft"], (await status(hub))["why"]) == (0, None)
    next_interval(redis)
    assert await sweep(hub) == (8, 8, 0, "off")  # eight of 48 are no reason for suspicion
    assert redis.smembers("nodes") == set(names[20:])


async def test_while_no_node_is_heard_none_is_removed_and_the_first_heartbeat_starts_the_timeout(hub, redis, caplog):
    names = await fleet(hub, redis, 10, 10)
    for _ in range(10):
        assert await sweep(hub) == (10, 0, 10, "engaged")
        end_grace(redis)
        redis.hincrby("hub:store", "clock_ms", 60_000)
        next_interval(redis)
    why = "nobody at all is heard, so it may be the hub that is deaf"
    assert [record.msg["why"] for record in caplog.records if record.msg["event"] == "brake engaged"] == [why]
    shown = await status(hub)
    assert (shown["perInterval"], shown["graceSecondsLeft"], shown["why"]) == (2, 60, why)

    await add_node(hub, "n03")
    assert await sweep(hub) == (9, 0, 9, "engaged")
    assert (await status(hub))["why"] == "nodes that are alive have 60 s to be heard again"
    end_grace(redis)
    assert await sweep(hub) == (9, 2, 7, "engaged")
    assert redis.smembers("nodes") == set(names[2:])
    assert told(caplog) == ["brake engaged"]


async def test_a_hub_that_loses_and_regains_its_nodes_bit_by_bit_removes_none(hub, redis, caplog):
    names = await fleet(hub, redis, 20, 12)
    await engage(hub, redis)
    for name in names[12:]:
        age_node(redis, name, 300)
    for some in (names[:1], names[1:10], names[10:]):  # each beats when its turn has come, and passes come between
        assert (await sweep(hub))[1] == 0
        for name in some:
            await add_node(hub, name)
        next_interval(redis)
    assert await sweep(hub) == (0, 0, 0, "off")
    assert redis.smembers("nodes") == set(names)
    assert told(caplog) == ["brake engaged", "brake ended"]


async def test_a_brake_record_without_a_start_time_begins_its_timeout_now(hub, redis):
    await fleet(hub, redis, 10, 3)
    redis.hincrby("hub:store", "clock_ms", 600_000)
    await engage(hub, redis)
    redis.hdel("hub:brake", "since_ms")  # engaged by a hub of a release that kept no such thing
    assert (await status(hub))["graceSecondsLeft"] == 60
    assert await sweep(hub) == (3, 0, 3, "engaged")
    end_grace(redis)
    assert await sweep(hub) == (3, 2, 1, "engaged")


async def test_while_nodes_report_after_a_restart_of_the_server_none_is_removed_or_suspected(hub, redis, caplog):
    await fleet(hub, redis, 10, 3)
    clock_ms = redis.hget("hub:store", "clock_ms")
    redis.hset("hub:store", mapping={"reopened_ms": clock_ms, "timeout_ms": 60_000})
    assert await sweep(hub) == (0, 0, 0, "off")
    redis.hincrby("hub:store", "reopened_ms", -60_000)
    await engage(hub, redis)
    redis.hincrby("hub:store", "reopened_ms", 60_000)  # again
    assert await sweep(hub) == (3, 0, 3, "engaged")
    redis.hincrby("hub:store", "reopened_ms", -60_000)
    assert await sweep(hub) == (3, 2, 1, "engaged")
    assert told(caplog) == ["brake engaged"]


@pytest.mark.parametrize("silent", [12, 20])
async def test_a_release_by_an_operator_removes_all_silent_nodes_at_once(hub, redis, silent):
    names = await fleet(hub, redis, 20, silent)
    assert await sweep(hub) == (silent, 0, silent, "engaged")
    await Brake(hub.store, hub.settings).release("ann")
    shown = await status(hub)
    assert (shown["state"], shown["graceSecondsLeft"], shown["why"]) == ("released", None, None)
    assert await sweep(hub) == (silent, silent, 0, "released")
    assert (await status(hub))["heldBack"] == 0
    assert await sweep(hub) == (0, 0, 0, "off")
    assert redis.smembers("nodes") == set(names[silent:])
    assert redis.exists("hub:brake") == 0


async def test_of_three_silent_nodes_in_ten_two_are_removed_and_the_third_is_unchanged(hub, redis, caplog):
    await fleet(hub, redis, 10, 3)
    before = picture(redis)
    await engage(hub, redis)
    assert await sweep(hub) == (3, 2, 1, "engaged")
    left = picture(redis)
    assert left["nodes"] == {f"n{number:02}" for number in range(2, 10)}
    assert left["node:n02"] == before["node:n02"]
    assert "node_alive:n02" not in left
    shown = await status(hub)
    assert (shown["state"], shown["stale"], shown["registered"]) == ("engaged", 3, 10)
    assert (shown["perInterval"], shown["heldBack"]) == (2, 1)
    assert shown["sinceUtc"].endswith("Z")
    assert told(caplog) == ["brake engaged"]

    next_interval(redis)
    assert await sweep(hub) == (1, 1, 0, "off")  # one of eight is no reason for suspicion
    assert (await status(hub))["state"] == "off"
    assert redis.exists("hub:brake") == 0
    assert told(caplog) == ["brake engaged", "brake ended"]


async def test_a_fleet_of_which_one_node_lives_is_removed_slowly_with_one_warning(hub, redis, caplog):
    await fleet(hub, redis, 21, 20)
    await engage(hub, redis)
    gone = []
    while redis.scard("nodes") > 1:
        gone.append((await sweep(hub))[1])
        next_interval(redis)
    assert gone == [4, 3, 2, 2, 2, 1, 1, 1, 1, 1, 2]  # a fifth of what is left, then one; two are too few to suspect
    assert told(caplog) == ["brake engaged", "brake ended"]


async def test_the_limit_of_the_brake_holds_per_interval_for_all_sweeps_and_hubs(hub, settings, redis, caplog):
    await fleet(hub, redis, 20, 10)
    async with open_store(settings) as store:
        other = Hub(store, settings)
        await engage(hub, redis)
        assert await sweep(hub) == (10, 4, 6, "engaged")
        assert await sweep(other) == (6, 0, 6, "engaged")
        assert await sweep(hub) == (6, 0, 6, "engaged")
        assert await status(hub) == await status(other)
        assert (await status(other))["heldBack"] == 6
        next_interval(redis)
        assert await sweep(other) == (6, 3, 3, "engaged")
        assert await status(hub) == await status(other)
    assert told(caplog) == ["brake engaged"]


async def test_fewer_silent_nodes_than_the_minimum_never_engage_the_brake(hub, redis, caplog):
    await fleet(hub, redis, 2, 2)
    assert await sweep(hub) == (2, 2, 0, "off")
    assert told(caplog) == []


@pytest.mark.parametrize(("percent", "minimum", "gone"), [(100, 1, 10), (20, 11, 10), (50, 3, 5), (1, 1, 1)])
async def test_both_bounds_of_the_brake_are_settings(redis_server, redis, percent, minimum, gone):
    settings = settings_for(redis_server.url, sweeper_brake_percent=percent, sweeper_brake_min=minimum)
    async with open_store(settings) as store:
        hub = Hub(store, settings)
        await fleet(hub, redis, 11, 10)
        if gone < 10:
            await engage(hub, redis)
        assert (await sweep(hub))[1] == gone


async def test_unmanaged_nodes_count_for_the_brake_as_well(hub, redis):
    for number in range(10):
        redis.sadd("nodes", f"f{number}")
        if number > 4:
            redis.set(f"node_alive:f{number}", "1", ex=90)
    await engage(hub, redis)
    assert await sweep(hub) == (5, 2, 3, "engaged")
    assert redis.scard("nodes") == 8


async def test_nodes_that_another_program_keeps_alive_do_not_count_as_silent(hub, redis, caplog):
    names = await fleet(hub, redis, 10, 6)
    for name in names[:5]:
        redis.set(f"node_alive:{name}", "1", ex=90)
    assert await sweep(hub) == (1, 1, 0, "off")
    assert told(caplog) == []


async def test_silent_nodes_beyond_the_size_of_a_pass_count_for_the_brake(hub, redis, monkeypatch):
    monkeypatch.setattr(sweeping, "CANDIDATES_MAX", 4)
    monkeypatch.setattr(sweeping, "PAGE", 2)
    await fleet(hub, redis, 20, 10)
    await engage(hub, redis)
    assert await sweep(hub) == (10, 4, 6, "engaged")


@pytest.mark.parametrize(
    ("silent", "silent_total", "unmanaged", "unmanaged_total", "stale", "in_all"),
    [
        ("ab", 2, "", 0, "ab", 2), ("ab", 9, "", 0, "ab", 9), ("ab", 9, "", 0, "a", 8), ("", 0, "xyz", 3, "x", 1),
        ("", 0, "wxyz", 400, "w", 100), ("ab", 3, "wxyz", 400, "aw", 102), ("", 0, "", 50, "", 0),
    ],
)  # fmt: skip
def test_silent_nodes_not_fetched_count_as_stale_and_unmanaged_ones_at_the_share_of_those_fetched(
    silent, silent_total, unmanaged, unmanaged_total, stale, in_all
):
    nominated = Nominated(1000, list(silent), silent_total, list(unmanaged), unmanaged_total)
    assert stale_in_all(nominated, list(stale)) == in_all


async def test_a_node_that_beats_between_the_two_checks_lets_another_be_removed(hub, redis, monkeypatch):
    await fleet(hub, redis, 10, 4)
    await engage(hub, redis)
    real = hub.nodes.expire

    async def late(node_id, *rest):
        if node_id == "n00":
            await add_node(hub, "n00")
        return await real(node_id, *rest)

    monkeypatch.setattr(hub.nodes, "expire", late)
    assert await sweep(hub) == (4, 2, 2, "engaged")
    assert redis.smembers("nodes") == {"n00", *(f"n{number:02}" for number in range(3, 10))}


async def test_an_unreadable_node_does_not_keep_others_from_being_removed(hub, redis):
    await fleet(hub, redis, 10, 5)
    redis.delete("node:n01")
    redis.set("node:n01", "a string where a hash should be")
    nodes, _ = sweepers(hub)
    await nodes.sweep()
    end_grace(redis)
    done = await nodes.sweep()
    assert (done.errors, done.stale, done.expired, done.held) == (1, 4, 2, 2)


async def test_a_dry_run_shows_what_the_brake_would_do_and_changes_nothing(hub, redis, caplog):
    await fleet(hub, redis, 10, 3)
    before = picture(redis, own=True)
    assert await sweep(hub, dry_run=True) == (3, 0, 3, "engaged")
    assert picture(redis, own=True) == before
    await engage(hub, redis)
    before = picture(redis, own=True)
    assert await sweep(hub, dry_run=True) == (3, 0, 1, "engaged")
    assert picture(redis, own=True) == before
    await sweep(hub)
    before = picture(redis, own=True)
    assert await sweep(hub, dry_run=True) == (1, 0, 0, "off")
    assert picture(redis, own=True) == before
    assert told(caplog) == ["brake engaged"]


async def test_after_a_release_the_next_wave_of_silent_nodes_is_braked_again(hub, settings, redis, caplog):
    await fleet(hub, redis, 20, 12)
    await engage(hub, redis)
    assert await sweep(hub) == (12, 4, 8, "engaged")
    async with open_store(settings) as store:
        other = Hub(store, settings)
        await Brake(store, settings).release("ann")
        shown = await status(hub)
        assert (shown["state"], shown["releasedBy"], bool(shown["releasedAtUtc"])) == ("released", "ann", True)
        assert await sweep(other) == (8, 8, 0, "released")
    assert (await status(hub))["state"] == "released"
    assert await sweep(hub) == (0, 0, 0, "off")
    assert redis.exists("hub:brake") == 0
    await fleet(hub, redis, 20, 12)
    assert await sweep(hub) == (12, 0, 12, "engaged")
    assert (await status(hub))["releasedBy"] is None
    assert told(caplog) == ["brake engaged", "brake released", "brake ended", "brake engaged"]


async def test_a_second_release_changes_nothing_and_a_disengaged_brake_cannot_be_released(hub, redis):
    brake = Brake(hub.store, hub.settings)
    with pytest.raises(BrakeOff):
        await brake.release("ann")
    await fleet(hub, redis, 10, 10)
    await sweep(hub)
    await brake.release("ann")
    first = await status(hub)
    await brake.release("bob")
    assert await status(hub) == first


async def test_a_release_of_the_brake_expires(hub, redis, caplog):
    await fleet(hub, redis, 20, 12)
    await engage(hub, redis)
    await Brake(hub.store, hub.settings).release("ann")
    redis.hincrby("hub:store", "clock_ms", 601_000)
    next_interval(redis)
    assert await sweep(hub) == (12, 0, 12, "engaged")  # from the beginning
    end_grace(redis)
    assert await sweep(hub) == (12, 4, 8, "engaged")
    assert (await status(hub))["releasedBy"] is None
    assert told(caplog) == ["brake engaged", "brake released", "brake engaged"]


async def test_with_expiry_off_the_brake_does_not_engage(hub, redis):
    await fleet(hub, redis, 10, 5)
    await sweep(hub)
    await hub.clock.switch_expire(False, "ann")
    assert await sweep(hub, dry_run=True) == (5, 0, 0, "off")
    assert await sweep(hub) == (5, 0, 0, "off")
    assert redis.exists("hub:brake") == 0
    assert [redis.ttl(f"node_alive:n{number:02}") > 0 for number in range(5)] == [True] * 5


async def test_a_pause_after_an_outage_does_not_change_the_brake(hub, redis):
    await fleet(hub, redis, 10, 5)
    await sweep(hub)
    await Brake(hub.store, hub.settings).release("ann")
    hub.clock._last_outage = (12.0, time.monotonic())
    assert await sweep(hub) == (5, 0, 0, "off")
    assert (await status(hub))["state"] == "released"


async def test_the_brake_script_repeated_within_a_pass_allows_no_further_removals(hub, redis):
    script = hub.store.script("sweeping/brake")
    facts = {"too_many": 1, "stale": 10, "registered": 20, "limit": 4, "window_ms": 20_000, "dry_run": 0, "of": "nodes"}
    facts |= {"grace_ms": 60_000, "others": "none"}
    assert [await script(pass_id="a", **facts) for _ in range(2)] == [["engaged", 0]] * 2
    end_grace(redis)
    assert await script(pass_id="a", **facts) == ["engaged", 0]
    assert [await script(pass_id="b", **facts) for _ in range(2)] == [["held", 4]] * 2
    assert await script(pass_id="c", **facts) == ["held", 0]
    next_interval(redis)
    assert await script(pass_id="c", **facts) == ["held", 0]
    assert await script(pass_id="d", **facts) == ["held", 4]


async def test_the_brake_is_shown_by_api_command_metrics_and_console_of_every_hub(make_api, redis, redis_server):
    async with make_api() as one, make_api() as two:
        assert (await one.get("/admin/brake")).json() == {
            "state": "off", "percent": 20, "minimum": 3, "stale": None, "registered": None, "perInterval": None,
            "heldBack": None, "graceSecondsLeft": None, "why": None, "sinceUtc": None, "seenUtc": None,
            "releasedBy": None, "releasedAtUtc": None,
        }  # fmt: skip
        for number in range(10):
            await one.post("/node/register", json={"nodeId": f"n{number}"})
            age_node(redis, f"n{number}", 300)
        dry = (await one.post("/admin/sweep", json={"dryRun": True})).json()
        assert (dry["brake"], dry["nodes"]["stale"], dry["nodes"]["heldBack"]) == ("engaged", 10, 10)
        swept = (await one.post("/admin/sweep")).json()
        assert (swept["brake"], swept["nodes"]["expired"], swept["nodes"]["heldBack"]) == ("engaged", 0, 10)
        for api in (one, two):
            shown = (await api.get("/admin/brake")).json()
            assert (shown["state"], shown["heldBack"], shown["graceSecondsLeft"]) == ("engaged", 10, 60)
            assert shown["why"].startswith("nobody at all is heard")
            assert (await api.get("/admin/sweeper")).json()["brake"] == shown
            assert "\nhub_sweeper_brake_engaged 1.0\n" in (await api.get("/metrics")).text
        released = (await two.post("/admin/brake/release", json={"by": "ann"})).json()
        assert (released["state"], released["releasedBy"]) == ("released", "ann")
        assert "\nhub_sweeper_brake_engaged 0.0\n" in (await one.get("/metrics")).text
        (noted,) = (await one.get("/audit", params={"action": "brake.release"})).json()
        assert (noted["category"], noted["actor"], noted["severity"]) == ("admin", "ann", "Warning")
        assert (await one.post("/admin/sweep")).json()["nodes"]["expired"] == 10
        assert (await one.post("/admin/sweep")).json()["brake"] == "off"
        refused = await one.post("/admin/brake/release")
        assert (refused.status_code, refused.json()["code"]) == (409, "brake-off")


async def test_nodes_held_back_by_the_brake_are_no_finding_of_the_doctor(hub, redis):
    await fleet(hub, redis, 10, 5)
    await engage(hub, redis)
    await sweep(hub)
    assert await examine(hub.store, settings=hub.settings, pause_s=0) == []
    redis.delete("hub:brake")
    found = await examine(hub.store, settings=hub.settings, pause_s=0)
    assert {finding.subject for finding in found} == {"node n02", "node n03", "node n04"}


async def test_a_fleet_that_is_heard_again_bit_by_bit_loses_no_node_to_the_sweeper(hub, redis):
    """When most are back the rest is fewer than the limit: they have the grace as well."""
    names = await fleet(hub, redis, 20, 20)
    assert (await sweep(hub))[1] == 0
    for name in names[:17]:
        await add_node(hub, name)
    assert await sweep(hub) == (3, 0, 3, "engaged")
    for name in names[17:]:
        await add_node(hub, name)
    assert await sweep(hub) == (0, 0, 0, "off")
    assert redis.smembers("nodes") == set(names)

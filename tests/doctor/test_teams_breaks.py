"""Teams broken by hand in one way: the doctor finds exactly that, repairs it, and then finds nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from redis import Redis

from hub.core import Hub
from hub.doctor import Finding
from hub.store.keys import TABLE
from tests.doctor.classed import offer, want_of
from tests.doctor.teamed import balance, holder_of, remove_team, set_team, want
from tests.doctor.test_bundles_breaks import look

POOL, OTHER, CPU = "gpu:a100", "gpu:h100", "cpu:arm"
ROWS = "gpu:*"
HELD = f"hub:team_leases:{ROWS}\tb"
VRAM = want_of("vram > 0")
WANTS, UNDER, PARKED = f"hub:team_wants:{POOL}\ta", f"hub:team_under:{POOL}\ta", f"hub:team_parked:{POOL}"
LINE, ITS_LINE = f"hub:team_line:{POOL}\t-\ta", f"hub:team_line:{OTHER}\t{VRAM}\tb"


@pytest.fixture
async def store(hub: Hub, redis: Redis) -> Redis:
    """Team b at its ceiling with s1 to s3 of gpu:a100, of which s3 is recalled for team a, whose ticket `low` waits for
    its guarantee. The ticket `full` of b waits beside the free slot s4 of gpu:h100. b also holds c1, of no row.
    """
    await hub.clock.tick()
    await set_team(hub, "a", guarantee=1, weight=2)
    await set_team(hub, "b", ceiling=3)
    await offer(hub, CPU, {"c1": None})
    await offer(hub, POOL, dict.fromkeys(("s1", "s2", "s3"), None))
    for ticket, label in (("c", CPU), ("t1", POOL), ("t2", POOL), ("t3", POOL)):
        assert (await want(hub, "b", ticket, label))[0] == "ok"
    await offer(hub, OTHER, {"s4": {"vram": 80}})
    assert (await want(hub, "b", "full", OTHER, run="r2", where="vram > 0"))[0] == "waiting"
    assert (await want(hub, "a", "low", POOL, run="r3"))[0] == "waiting"
    await balance(hub)
    assert redis.zrange(f"hub:recalled:{ROWS}", 0, -1) == ["s3"]
    assert await look(hub) == []
    return redis


def picture(redis: Redis) -> dict[str, object]:
    """Return what is kept of teams; of the leases only who holds them, as some are counted anew."""
    found: dict[str, object] = {}
    for key in sorted(redis.scan_iter("hub:*")):
        kind = key.split(":")[1]
        if kind in ("team_leases", "team_line", "recalled"):
            found[key] = set(redis.zrange(key, 0, -1))
        elif kind in ("line_teams", "team_labels", "team_parked"):
            found[key] = redis.smembers(key)
        elif kind in ("team_wants", "team_under"):
            found[key] = redis.zrange(key, 0, -1, withscores=True)
        elif kind == "team_shares":
            found[key] = [(team, round(share, 6)) for team, share in redis.zrange(key, 0, -1, withscores=True)]
    return found


def hand_over(redis: Redis, slot: str, team: str) -> None:
    """Make a lease one of another team."""
    redis.hset(f"session:{slot}", "holder", holder_of(team))


COUNTS = "counts a lease that is over, or that another team holds"
SHARE = "is not what follows from the leases of the team"
UNSERVED = "waited in, but freed slots would not find it"
AWAY = "names a ticket that does not wait there"
STRAY = "names what does not belong there"
RECALLED = "names a lease whose record does not say so"
BACK = "keeps a label from a team although its cap is not reached"
TOO_LATE = "waited in, but freed slots would not find what its tickets want, or only after others"
UNLISTED = "waited in, but freed slots would not find its label for the team, or only too late"
LATE = 9e15
Expected = set[tuple[str, str, str]]
BREAKS: dict[str, tuple[Callable[[Redis], object], Expected]] = {
    "a lease that its team does not count": (
        lambda r: r.zrem(HELD, "s2"),
        {
            ("C4", "slot s2", "lent, but not counted for the team"),
            ("C5", f"hub:team_shares:{ROWS} b", SHARE),
            ("C5", f"pool {OTHER}", "has a free slot and a waiter"),
        },
    ),
    "leases that no team counts": (
        lambda r: r.delete(HELD),
        {
            *(("C4", f"slot {slot}", "lent, but not counted for the team") for slot in ("s1", "s2", "s3")),
            ("C5", f"hub:team_shares:{ROWS} b", SHARE),
            ("C5", f"pool {OTHER}", "has a free slot and a waiter"),
        },
    ),
    "a slot of a team that is not lent": (
        lambda r: r.zadd(HELD, {"s4": 1}),
        {("C4", f"{HELD} s4", COUNTS)},
    ),
    "a slot of a team that is gone": (
        lambda r: r.zadd(HELD, {"s9": 1}),
        {("C4", f"{HELD} s9", COUNTS)},
    ),
    "a slot of a team of a pool without rows": (
        lambda r: r.zadd(HELD, {"c1": 1}),
        {("C4", f"{HELD} c1", COUNTS)},
    ),
    "a lease that two teams count": (
        lambda r: r.zadd(f"hub:team_leases:{ROWS}\ta", {"s1": 1}),
        {
            ("C4", f"hub:team_leases:{ROWS}\ta s1", COUNTS),
            ("C5", f"hub:team_shares:{ROWS} a", SHARE),
        },
    ),
    "leases counted under a pattern without rows": (
        lambda r: r.zadd("hub:team_leases:cpu:*\tb", {"c1": 1}),
        {("C4", "hub:team_leases:cpu:*\tb c1", COUNTS)},
    ),
    "a share that is too small": (
        lambda r: r.zadd(f"hub:team_shares:{ROWS}", {"b": 0}),
        {("C5", f"hub:team_shares:{ROWS} b", SHARE)},
    ),
    "a team below its guarantee that comes last": (
        lambda r: r.zincrby(f"hub:team_shares:{ROWS}", 5, "a"),
        {("C5", f"hub:team_shares:{ROWS} a", SHARE)},
    ),
    "a team with leases that has no share": (
        lambda r: r.zrem(f"hub:team_shares:{ROWS}", "b"),
        {("C5", f"hub:team_shares:{ROWS} b", SHARE), ("C5", ITS_LINE, UNSERVED)},
    ),
    "a team without leases that waits and has no share": (
        lambda r: r.zrem(f"hub:team_shares:{ROWS}", "a"),
        {("C5", LINE, UNSERVED)},
    ),
    "a share of a team that neither holds nor waits": (
        lambda r: r.zadd(f"hub:team_shares:{ROWS}", {"z": 0}),
        {("C12", f"hub:team_shares:{ROWS} z", STRAY)},
    ),
    "a team below its ceiling that comes last": (
        lambda r: r.zadd(f"hub:team_shares:{ROWS}", {"a": "inf"}),
        {("C5", f"hub:team_shares:{ROWS} a", SHARE)},
    ),
    "a team that comes after its equals": (
        lambda r: r.zincrby(f"hub:team_shares:{ROWS}", 1e-6, "a"),
        {("C5", f"hub:team_shares:{ROWS} a", SHARE)},
    ),
    "a share under a pattern without rows": (
        lambda r: r.zadd("hub:team_shares:cpu:*", {"b": 1}),
        {("C12", "hub:team_shares:cpu:* b", STRAY)},
    ),
    "turns under a pattern without rows": (
        lambda r: r.hset("hub:team_turns:cpu:*", "floor", 1),
        {("C12", "hub:team_turns:cpu:* floor", STRAY)},
    ),
    "a line of a team with a ticket that is gone": (
        lambda r: r.zadd(LINE, {"ghost": LATE}),
        {("C6", f"{LINE} ghost", AWAY)},
    ),
    "a line of a team with a ticket of another team": (
        lambda r: r.zadd(LINE, {"full": LATE}),
        {("C6", f"{LINE} full", AWAY)},
    ),
    "a line under a label for which the ticket does not wait": (
        lambda r: (
            r.zadd(f"hub:team_line:{CPU}\t-\ta", {"low": 5}),
            r.zadd(f"hub:team_wants:{CPU}\ta", {"-": 5}),
            r.sadd(f"hub:line_teams:{CPU}", "a"),
            r.sadd("hub:team_labels:a", CPU),
        ),
        {("C6", f"hub:team_line:{CPU}\t-\ta low", AWAY)},
    ),
    "a line of what the ticket does not want": (
        lambda r: (
            r.zadd(f"hub:team_line:{OTHER}\t-\tb", {"full": 5}),
            r.zadd(f"hub:team_wants:{OTHER}\tb", {"-": 5}),
        ),
        {("C6", f"hub:team_line:{OTHER}\t-\tb full", AWAY)},
    ),
    "a ticket that its team does not list": (
        lambda r: r.zincrby(LINE, 1, "low"),
        {("C5", "ticket low", "waits, but not in each queue and line")},
    ),
    "a line of a team that is lost": (
        lambda r: r.delete(LINE),
        {
            ("C5", "ticket low", "waits, but not in each queue and line"),
            ("C12", f"{WANTS} -", STRAY),
        },
    ),
    "a line that is listed after its first ticket": (
        lambda r: r.zincrby(WANTS, 1, "-"),
        {("C5", LINE, TOO_LATE)},
    ),
    "a line that is not listed": (
        lambda r: (r.zadd(WANTS, {"other": 5}), r.zrem(WANTS, "-")),
        {("C5", LINE, TOO_LATE), ("C12", f"{WANTS} other", STRAY)},
    ),
    "lines that are not listed": (
        lambda r: r.delete(WANTS),
        {
            ("C5", LINE, TOO_LATE),
            ("C12", f"hub:line_teams:{POOL} a", STRAY),
            ("C12", f"hub:team_labels:a {POOL}", STRAY),
            ("C12", f"{UNDER} {POOL}", STRAY),
        },
    ),
    "a want of a team that waits nowhere": (
        lambda r: r.zadd(f"hub:team_wants:{CPU}\tz", {"-": 5}),
        {("C12", f"hub:team_wants:{CPU}\tz -", STRAY)},
    ),
    "a want of a team that waits no longer": (
        lambda r: (
            r.zadd(f"hub:team_wants:{CPU}\tz", {"-": 5}),
            r.sadd(f"hub:line_teams:{CPU}", "z"),
            r.sadd("hub:team_labels:z", CPU),
            r.zadd(f"hub:team_under:{CPU}\tz", {CPU: 5}),
            r.zadd(f"hub:team_shares:{ROWS}", {"z": 0}),
        ),
        {("C12", f"hub:team_wants:{CPU}\tz -", STRAY)},
    ),
    "a label that is listed for a team after its turn": (
        lambda r: r.zincrby(UNDER, 1, POOL),
        {("C5", LINE, UNLISTED)},
    ),
    "a label that is not listed for a team": (
        lambda r: r.delete(UNDER),
        {("C5", LINE, UNLISTED)},
    ),
    "a label that is listed for a team that does not wait for it": (
        lambda r: r.zadd(UNDER, {OTHER: 5, f"{POOL}:eu": 5}),
        {("C12", f"{UNDER} {OTHER}", STRAY), ("C12", f"{UNDER} {POOL}:eu", STRAY)},
    ),
    "a label that is listed for a team where no pool serves it": (
        lambda r: r.zadd("hub:team_under:*\ta", {POOL: 5}),
        {("C12", f"hub:team_under:*\ta {POOL}", STRAY)},
    ),
    "a label that stands back without a cap": (
        lambda r: (r.sadd(PARKED, "a"), r.delete(UNDER)),
        {("C5", f"{PARKED} a", BACK), ("C5", LINE, UNLISTED)},
    ),
    "a label that stands back for a team that does not wait": (
        lambda r: r.sadd(PARKED, "z"),
        {("C5", f"{PARKED} z", BACK)},
    ),
    "a line that its label does not know": (
        lambda r: r.srem(f"hub:line_teams:{POOL}", "a"),
        {("C5", LINE, UNSERVED)},
    ),
    "a line that its team does not know": (
        lambda r: r.srem("hub:team_labels:b", OTHER),
        {("C5", ITS_LINE, UNSERVED)},
    ),
    "a label that lists a team that does not wait": (
        lambda r: r.sadd(f"hub:line_teams:{POOL}", "z"),
        {("C12", f"hub:line_teams:{POOL} z", STRAY)},
    ),
    "a team that lists a label for which it does not wait": (
        lambda r: r.sadd("hub:team_labels:a", OTHER),
        {("C12", f"hub:team_labels:a {OTHER}", STRAY)},
    ),
    "a recalled lease whose record does not say so": (
        lambda r: r.hdel("hub:slot:s3", "recall_ms"),
        {("C4", f"hub:recalled:{ROWS} s3", RECALLED), ("C4", "slot s3", "would end for another team")},
    ),
    "a lease whose record alone says that it is recalled": (
        lambda r: r.zrem(f"hub:recalled:{ROWS}", "s3"),
        {("C4", "slot s3", "would end for another team")},
    ),
    "a recall at another time than the record says": (
        lambda r: r.zincrby(f"hub:recalled:{ROWS}", 5, "s3"),
        {("C4", f"hub:recalled:{ROWS} s3", RECALLED), ("C4", "slot s3", "would end for another team")},
    ),
    "a recall that would outlive its lease": (
        lambda r: r.hdel("hub:slot:s3", "limited"),
        {
            ("C4", f"hub:recalled:{ROWS} s3", RECALLED),
            ("C4", "slot s3", "would end for another team"),
            ("C12", "hub:lease_limits s3", STRAY),
        },
    ),
    "a free slot that was recalled long ago": (
        lambda r: r.zadd(f"hub:recalled:{ROWS}", {"s4": -LATE}),
        {("C4", f"hub:recalled:{ROWS} s4", RECALLED)},
    ),
    "a free slot whose next lease would be recalled": (
        lambda r: r.hset("hub:slot:s4", "recall_ms", 5),
        {("C4", "slot s4", "would end for another team")},
    ),
    "a lease of no row that is recalled": (
        lambda r: r.zadd("hub:recalled:cpu:*", {"c1": 5}),
        {("C4", "hub:recalled:cpu:* c1", RECALLED)},
    ),
    "rows that the store has forgotten": (
        lambda r: r.hset("hub:store", "teams", ""),
        {
            ("C5", "hub:store", "does not know how teams are to share pools"),
            ("C5", f"pool {OTHER}", "has a free slot and a waiter"),
        },
    ),
    "a store that has missed a change of the rows": (
        lambda r: r.hset("hub:store", "teams", "7"),
        {("C5", "hub:store", "does not know how teams are to share pools")},
    ),
    "rows without a number": (
        lambda r: r.hdel("hub:store", "teams_number"),
        {("C5", "hub:store", "does not know how teams are to share pools")},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BREAKS)
async def test_the_doctor_finds_exactly_what_is_broken_and_repairs_it(name: str, store: Redis, hub: Hub) -> None:
    before = picture(store)
    do, expected = BREAKS[name]
    do(store)
    found = await look(hub)
    assert {(each.invariant, each.subject) for each in found} == {(number, subject) for number, subject, _ in expected}
    for invariant, subject, words in expected:
        assert any((f.invariant, f.subject) == (invariant, subject) and f.problem.startswith(words) for f in found)
    assert [each for each in await look(hub, repair=True) if not each.repaired] == []
    assert await look(hub) == []
    await balance(hub)  # recalls again what a repair has let go
    assert picture(store) == before
    assert await look(hub) == []


async def test_what_is_listed_earlier_than_the_truth_is_no_fault(store: Redis, hub: Hub) -> None:
    store.zadd(WANTS, {"-": 1})
    store.zadd(UNDER, {POOL: 0})
    assert await look(hub) == []


async def test_a_label_that_stands_back_for_a_team_while_its_cap_is_reached_is_no_fault(store: Redis, hub: Hub) -> None:
    await hub.queue.set_cap(POOL, 3)
    store.sadd(PARKED, "a")
    store.delete(UNDER)
    assert await look(hub) == []
    await hub.queue.set_cap(POOL, 4)
    assert (store.exists(PARKED), store.zrange(UNDER, 0, -1)) == (0, [POOL])


async def test_a_slot_on_its_way_from_a_recalled_lease_is_listed_for_a_while(store: Redis, hub: Hub) -> None:
    now = int(store.hget("hub:store", "clock_ms") or 0)
    store.hset("hub:slot:s3", mapping={"recall_ms": now - 1000, "warned_ms": now - 1000})
    store.zadd(f"hub:recalled:{ROWS}", {"s3": now - 1000})
    store.zadd("hub:lease_limits", {"s3": now - 1000})
    await balance(hub)
    assert (store.hget("hub:slot:s3", "place"), store.hexists("hub:slot:s3", "recall_ms")) == ("held", False)
    assert store.zrange(f"hub:recalled:{ROWS}", 0, -1) == ["s3"]
    assert await look(hub) == []
    store.zadd(f"hub:recalled:{ROWS}", {"s3": now - 130_000})
    (found,) = await look(hub, repair=True)
    assert told(found) == ("C4", f"hub:recalled:{ROWS} s3", found.problem)
    assert found.problem.startswith(RECALLED)
    assert await look(hub) == []


async def test_rows_that_are_lost_leave_nothing_after_the_repair(store: Redis, hub: Hub) -> None:
    store.delete("hub:teams")
    found = await look(hub, repair=True)
    assert ("C12", "hub:store", "says that teams share pools, and none does") in map(told, found)
    assert [each for each in found if not each.repaired] == []
    await look(hub, repair=True)  # serves those who waited at a ceiling
    assert await look(hub) == []
    assert left(store) == set()
    assert store.hget("hub:slot:s3", "recall_ms") is None


async def test_of_rows_that_are_removed_nothing_is_left(store: Redis, hub: Hub) -> None:
    for team in "ab":
        await remove_team(hub, team)
    await look(hub, repair=True)  # serves those who waited at a ceiling
    assert left(store) == set()
    assert store.hget("hub:store", "teams") == ""
    assert store.hget("session:s4", "runId") == "r2"
    assert await look(hub) == []


@pytest.mark.parametrize(("guaranteed", "found"), [(3, set()), (4, {(f"hub:teams {ROWS}", False)})])
async def test_guarantees_above_what_is_published_are_a_finding_that_no_repair_ends(
    store: Redis, hub: Hub, guaranteed: int, found: set[tuple[str, bool]]
) -> None:
    await set_team(hub, "z", guarantee=guaranteed)  # with the one of team a: of four slots
    seen = await look(hub, repair=True)
    assert {(each.subject, each.repaired) for each in seen} == found
    assert all(each.problem.startswith("guarantees teams more slots than are published") for each in seen)


async def test_guarantees_count_by_the_pattern_that_counts_in_a_pool(store: Redis, hub: Hub) -> None:
    await set_team(hub, "z", OTHER, guarantee=1)
    await set_team(hub, "a", guarantee=3)
    await look(hub, repair=True)  # the ceiling of b holds there no longer, and its ticket is served
    assert await look(hub) == []
    await set_team(hub, "z", OTHER, guarantee=2)
    await set_team(hub, "a", guarantee=4)
    assert {each.subject for each in await look(hub)} == {f"hub:teams {ROWS}", f"hub:teams {OTHER}"}


async def test_a_repair_that_runs_twice_counts_a_lease_once(store: Redis, hub: Hub) -> None:
    store.zrem(HELD, "s2")
    repair = hub.store.script("doctor/repair")
    for _ in range(2):
        await repair(kind="team_leases", rest=["s2"])
    turns = store.hgetall(f"hub:team_turns:{ROWS}")
    await repair(kind="team_leases", rest=["s2"])
    assert store.hgetall(f"hub:team_turns:{ROWS}") == turns
    assert await look(hub) == []


def told(found: Finding) -> tuple[str, str, str]:
    return found.invariant, found.subject, found.problem


def left(redis: Redis) -> set[str]:
    """Return the kinds of keys that are there of teams."""
    of_teams = {name for name in TABLE if "team" in name} | {"recalled"}
    return {name for name in of_teams if any(redis.scan_iter(f"{TABLE[name].head}*"))}

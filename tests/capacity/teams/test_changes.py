"""What teams hold and who of them waits, after tickets leave, rows change, leases come to light, or a loss."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hub.capacity.models import slot_item
from tests.capacity.bundles.acts import withdraw
from tests.capacity.teams.acts import (
    holder_of,
    keys_of_teams,
    leave,
    look_after,
    recalled,
    review,
    want_all,
    want_any,
)
from tests.capacity.teams.conftest import Teams

LINES = ("team_line", "line_teams", "team_labels")


def lines(fleet: Teams) -> list[str]:
    return [key for key in keys_of_teams(fleet) if key.split(":")[1] in LINES]


def leases(fleet: Teams, pattern: str = "gpu:*") -> dict[str, set[str]]:
    """Return what is counted for each team."""
    head = f"hub:team_leases:{pattern}\t"
    names = [key for key in fleet.redis.keys("hub:team_leases:*") if key.startswith(head)]
    return {key[len(head) :]: set(fleet.redis.zrange(key, 0, -1)) for key in names}


def number(fleet: Teams) -> str:
    return str(fleet.redis.hget("hub:store", "teams_number"))


def retire(fleet: Teams) -> None:
    while fleet.direct.call("queue/retire", limit=50)[3]:
        pass


@pytest.mark.parametrize("how", ["cancel", "timeout", "silent", "undo", "served"])
def test_a_ticket_that_leaves_leaves_no_line(fleet: Teams, how: str) -> None:
    (slot,) = fleet.node("m", 1)
    fleet.team("a", guarantee=1)
    fleet.want("b")
    tickets = [
        fleet.want("a", "gpu:a:x", wait=5_000),
        want_any(fleet, "a", ("gpu:a", ""), ("gpu:b", "vram >= 1"), wait=5_000),
        want_any(fleet, "", ("gpu:a", ""), ("gpu:a", "vram >= 1"), wait=5_000),
    ]
    assert len(lines(fleet)) == 10
    if how == "cancel":
        for ticket in tickets:
            leave(fleet, ticket)
    elif how == "undo":
        for ticket in tickets:
            fleet.direct.call("capacity/undo", request=ticket, attempt=f"try-{ticket}", hub="h1", why="gone")
    elif how == "served":
        for _ in tickets:
            fleet.give_back(slot)
    else:
        look_after(fleet, "m", seconds=9, dead=how == "silent")
        fleet.direct.tick("h2")
        retire(fleet)
    assert lines(fleet) == []


def test_a_ticket_with_a_key_comes_back_to_its_line(fleet: Teams) -> None:
    (slot,) = fleet.node("m", 1)
    fleet.team("a", guarantee=1)
    fleet.want("b")
    ticket = want_any(fleet, "a", ("gpu:a", ""), keyed=True)
    fleet.direct.call("capacity/undo", request=ticket, attempt=f"try-{ticket}", hub="h1", why="timeout")
    assert lines(fleet) == []
    fleet.count -= 1
    assert want_any(fleet, "a", ("gpu:a", ""), keyed=True, attempt="try-again") == ticket
    assert len(lines(fleet)) == 3
    fleet.give_back(slot)
    assert fleet.holder(slot) == ticket
    assert lines(fleet) == []


def test_an_undone_lease_is_counted_no_more(fleet: Teams) -> None:
    fleet.node("m", 1)
    fleet.team("a", ceiling=1)
    assert fleet.want("a") == "m-1"
    fleet.direct.call("capacity/undo", request="t1", attempt="try-t1", hub="h1", why="gone")
    assert (fleet.held("a"), leases(fleet)) == (0, {})
    assert fleet.want("a", fast=True) == "m-1"


@pytest.mark.parametrize("how", ["return", "lapse", "leave", "withdraw", "expire"])
def test_a_lease_is_counted_until_it_ends(fleet: Teams, how: str) -> None:
    fleet.node("m", 2)
    fleet.team("a", ceiling=2)
    for _ in range(2):
        fleet.want("a", ttl_ms=4_000)
    assert leases(fleet) == {"a": {"m-1", "m-2"}}
    if how == "return":
        fleet.give_back("m-1"), fleet.give_back("m-2")
    elif how == "withdraw":
        withdraw(fleet, "m-1"), withdraw(fleet, "m-2")
    elif how == "leave":
        fleet.direct.call("nodes/leave", id="m", part="m", limit=64, incarnation="")
    elif how == "lapse":
        look_after(fleet, "m", seconds=5)
    else:
        fleet.redis.delete("node_alive:m", "node:m")
        fleet.wait(120_000)
        fleet.direct.sweep()
    assert leases(fleet) == {}


def test_all_parts_of_a_bundle_are_counted(fleet: Teams) -> None:
    fleet.node("m", 3), fleet.node("k", 3, "cpu:a")
    fleet.team("a", ceiling=5)
    slots = want_all(fleet, "a", ("gpu:a", "", 2), ("cpu:a", "", 1), wait=0)
    assert leases(fleet) == {"a": set(slots[:2])}
    bundle = json.loads(fleet.redis.hget(f"session:{slots[0]}", "holder"))["bundle"]
    fleet.direct.call("capacity/return_bundle", bundle=bundle, by="operator")
    assert leases(fleet) == {}


def test_removing_the_last_row_leaves_no_key(fleet: Teams) -> None:
    fleet.node("m", 3, "gpu:a"), fleet.node("k", 1, "cpu:a")
    fleet.team("a", guarantee=2), fleet.team("b", "cpu:*", ceiling=1), fleet.team("c", "*", weight=2)
    for pool in ("gpu:a", "gpu:a", "gpu:a", "cpu:a"):
        fleet.want("b", pool)
    fleet.want("a"), fleet.want("a"), fleet.want("c", "cpu:a"), fleet.want("", "gpu:a:x")
    want_any(fleet, "a", ("gpu:a", ""), ("cpu:a", "vram >= 1"))
    assert recalled(fleet)
    slots = recalled(fleet)
    fleet.remove("a"), fleet.remove("c", "*"), fleet.remove("b", "cpu:*")
    assert keys_of_teams(fleet) == []
    assert fleet.redis.hget("hub:store", "teams") == ""
    for slot in slots:
        assert fleet.redis.hmget(f"hub:slot:{slot}", "recall_ms", "ending") == [None, None]
    fleet.give_back("m-1")
    assert fleet.holder("m-1") is not None
    assert keys_of_teams(fleet) == []


def test_rows_changed_while_all_is_busy_count_what_is_there(fleet: Teams) -> None:
    fleet.node("m", 4, "gpu:a"), fleet.node("k", 2, "gpu:b")
    for team, pool in (("a", "gpu:a"), ("b", "gpu:a"), ("", "gpu:a"), ("a", "gpu:a"), ("a", "gpu:b"), ("b", "gpu:b")):
        fleet.want(team, pool)
    fleet.want("a", "gpu:a"), fleet.want("", "gpu:b")
    fleet.team("a", "gpu:*", ceiling=3)
    everything = {"a": {"m-1", "m-4", "k-1"}, "b": {"m-2", "k-2"}, "": {"m-3"}}
    assert leases(fleet) == everything
    fleet.team("b", "gpu:a*", weight=2)
    assert leases(fleet) == {"a": {"k-1"}, "b": {"k-2"}}
    assert leases(fleet, "gpu:a*") == {"a": {"m-1", "m-4"}, "b": {"m-2"}, "": {"m-3"}}
    fleet.give_back("m-2")
    assert leases(fleet, "gpu:a*") == {"a": {"m-1", "m-4", "m-2"}, "": {"m-3"}}
    fleet.remove("b", "gpu:a*")
    assert leases(fleet, "gpu:a*") == {}
    assert leases(fleet) == {"a": {"m-1", "m-4", "m-2", "k-1"}, "b": {"k-2"}, "": {"m-3"}}


def test_a_guarantee_that_is_given_later_recalls_in_the_next_round(fleet: Teams) -> None:
    fleet.node("m", 2)
    fleet.want("b"), fleet.want("b")
    fleet.want("a")
    fleet.team("a", guarantee=1)
    look_after(fleet, "m")
    assert len(recalled(fleet)) == 1
    (slot,) = recalled(fleet)
    fleet.team("a", guarantee=0)
    look_after(fleet, "m")
    assert not recalled(fleet)
    assert fleet.renew(slot, 90_000) == 90_000


def test_a_change_of_other_rows_does_not_put_a_recall_off(fleet: Teams) -> None:
    fleet.node("m", 2)
    fleet.team("a", guarantee=1)
    fleet.want("b", ttl_ms=10_000), fleet.want("b", ttl_ms=10_000)
    ticket = fleet.want("a")
    for second in range(12):
        for slot in ("m-1", "m-2"):
            fleet.renew(slot, 10_000)
        fleet.team("z", f"cpu:{second}:*", weight=2)
        look_after(fleet, "m")
    assert len(fleet.held_by(ticket)) == 1


def test_a_repeat_of_a_row_changes_nothing(fleet: Teams) -> None:
    fleet.node("m", 2)
    fleet.team("a", guarantee=1)
    fleet.want("b"), fleet.want("b")
    fleet.want("a")
    look_after(fleet, "m")
    before, counted = recalled(fleet), leases(fleet)
    fleet.team("a", guarantee=1)
    fleet.remove("nobody")
    look_after(fleet, "m")
    assert (recalled(fleet), leases(fleet)) == (before, counted)


def lose(fleet: Teams) -> None:
    """The store is lost; a hub opens it again, and it has settled."""
    fleet.redis.flushall()
    fleet.direct.open()
    fleet.direct.call("queue/agree", hub="", given=fleet.given)
    fleet.direct.tick("h1")
    fleet.wait(5_000)


def readopt(fleet: Teams, slot: str, team: str, token: str, node: str = "m", pool: str = "gpu:a", **more: Any) -> str:
    named = {
        "slot": slot, "node": node, "part": node, "item": slot_item(node, slot, "", {}), "pool": pool, "label": pool,
        "run": "", "holder": holder_of(team), "token": token, "ttl_ms": 60_000,
    } | more  # fmt: skip
    return str(fleet.direct.call("capacity/readopt", **named)[0])


def test_rows_that_are_told_again_are_those_of_the_last_change(fleet: Teams) -> None:
    fleet.node("m", 1)
    fleet.team("a", guarantee=1)
    first, rows = number(fleet), fleet.redis.hgetall("hub:teams")
    fleet.team("a", guarantee=2)
    second, later = number(fleet), fleet.redis.hgetall("hub:teams")
    flat = [text for row in rows.items() for text in row]
    assert fleet.direct.call("teams/recall", number=first, rest=flat) == ["kept"]
    assert fleet.redis.hgetall("hub:teams") == later
    assert fleet.direct.call("teams/recall", number=second, rest=flat) == ["kept"]
    fleet.remove("a")
    assert fleet.direct.call("teams/recall", number=second, rest=flat) == ["kept"]
    assert not fleet.redis.exists("hub:teams")


@pytest.mark.parametrize("rows_first", [True, False])
def test_after_a_loss_rows_and_leases_are_counted_in_any_order(fleet: Teams, rows_first: bool) -> None:
    fleet.given = fleet.redis.hget("hub:store", "shared")  # type: ignore[attr-defined]
    fleet.node("m", 3)
    fleet.team("a", guarantee=2), fleet.team("b", ceiling=2)
    for team in "abb":
        fleet.want(team)
    last, rows = number(fleet), fleet.redis.hgetall("hub:teams")
    tokens = {slot: fleet.redis.hget(f"session:{slot}", "leaseToken") for slot in ("m-1", "m-2", "m-3")}
    flat = [text for row in rows.items() for text in row]
    lose(fleet)
    assert not keys_of_teams(fleet)
    if rows_first:
        assert fleet.direct.call("teams/recall", number=last, rest=flat) == ["taken"]
    fleet.direct.call(
        "nodes/register", id="m", part="m", apps="", capacity=1, labels="{}", base_url="", timeout_ms=60_000,
        audit_new="{}", audit_old="{}", audit_max=10, incarnation="", said_term="", first="", host="", token_ms=60_000,
    )  # fmt: skip
    for slot, team in (("m-1", "a"), ("m-2", "b"), ("m-3", "b")):
        assert readopt(fleet, slot, team, str(tokens[slot])) == "adopted"
    if not rows_first:
        assert fleet.direct.call("teams/recall", number=last, rest=flat) == ["taken"]
    assert fleet.direct.call("teams/recall", number=last, rest=flat) == ["kept"]
    assert fleet.redis.hgetall("hub:teams") == rows
    assert leases(fleet) == {"a": {"m-1"}, "b": {"m-2", "m-3"}}
    fleet.give_back("m-3")
    assert leases(fleet) == {"a": {"m-1"}, "b": {"m-2"}}


def test_a_session_that_another_program_wrote_is_counted_alike_before_and_after_a_change(fleet: Teams) -> None:
    fleet.node("m", 2)
    fleet.team("a", weight=2)
    item = fleet.redis.lpop("available:gpu:a")
    fleet.redis.rpush("inuse:gpu:a", item)
    fleet.redis.set("borrow:ttl:m-1", "1", px=60_000)
    fleet.redis.hset("session:m-1", mapping={"labelKey": "gpu:a", "runId": "", "nodeId": "m", "poolLabel": "gpu:a"})
    fleet.direct.call("sweeping/adopt_sessions", ttl_ms=60_000, rest=["m-1"])
    assert leases(fleet) == {"": {"m-1"}}
    fleet.team("b", "cpu:*", weight=2)
    assert leases(fleet) == {"": {"m-1"}}


def test_a_session_that_another_program_deleted_is_counted_no_more(fleet: Teams) -> None:
    fleet.node("m", 1)
    fleet.team("a", ceiling=1)
    assert fleet.want("a") == "m-1"
    fleet.redis.delete("session:m-1")
    fleet.direct.call("capacity/lapse", rest=["m-1"])
    look_after(fleet, "m", seconds=1)
    fleet.wait(61_000)
    look_after(fleet, "m", seconds=1)
    assert fleet.redis.zscore("hub:deadlines", "m-1") is None
    assert leases(fleet) == {}


def test_nobody_waits_beside_a_free_slot_after_any_change_of_rows(fleet: Teams) -> None:
    fleet.node("m", 3)
    fleet.team("a", ceiling=0), fleet.team("b", ceiling=1)
    tickets = [fleet.want(team) for team in "aabb"]
    assert fleet.held("b") == 1
    fleet.team("a", ceiling=1)
    review(fleet)
    assert (fleet.held("a"), fleet.held("b")) == (1, 1)
    fleet.team("a", "gpu:a*", ceiling=2)
    review(fleet)
    assert fleet.free() == 0
    assert sum(len(fleet.held_by(ticket)) for ticket in tickets if ticket.startswith("t")) == 2

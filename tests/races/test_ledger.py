"""The check itself can fail: on what it is there to find."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.races.ledger import (
    broken,
    cut_by_dead_nodes,
    cut_by_expiry,
    ended_twice,
    expires_elsewhen,
    holds,
    revived,
    unanswered,
)


def line(at: float, event: str, **facts: object) -> dict[str, object]:
    return {"at": at, "who": "b1", "event": event, **facts}


def hold(at: float, token: int, until: float, slot: str = "s1") -> dict[str, object]:
    return line(at, "holds", slot=slot, token=str(token), node="n1", until=until)


def give(at: float, token: int) -> dict[str, object]:
    return line(at, "gives", slot="s1", token=str(token))


def found(*lines: dict[str, object], nodes: tuple[dict[str, object], ...] = ()) -> list[str]:
    every = holds(lines)
    cut_by_dead_nodes(every, nodes, 3)
    return broken(every, lines)


def test_leases_of_one_slot_that_follow_each_other_are_no_finding():
    assert found(hold(1, 10, 3), give(2, 10), hold(2.1, 11, 5), hold(4, 11, 7), give(6, 11), hold(6.1, 12, 9)) == []


def test_a_lease_whose_end_is_told_by_another_clock_is_found():
    fine, wrong = ({**hold(1, token, 3), "expires": expires} for token, expires in ((10, 4.0), (11, 3 + 3600.0)))
    assert expires_elsewhen([fine, give(2, 10)], 60) == []
    assert len(expires_elsewhen([fine, wrong], 60)) == 1


def test_a_slot_held_twice_is_found():
    assert len(found(hold(1, 10, 3), hold(2, 11, 4))) == 1


def test_a_slot_held_twice_because_of_a_renewal_is_found():
    assert len(found(hold(1, 10, 3), hold(2.9, 10, 5), hold(3.5, 11, 6))) == 1


def test_a_token_that_does_not_rise_is_found():
    assert len(found(hold(1, 10, 3), give(2, 10), hold(2.1, 9, 5))) == 1


def test_leases_of_different_slots_are_compared_separately():
    assert found(hold(1, 10, 3), hold(2, 5, 4, slot="s2")) == []


def test_a_denial_of_a_lease_that_still_lasts_is_found():
    denied = line(2, "invalid", slot="s1", token="10", why="not lent")
    assert len(found(hold(1, 10, 3), denied)) == 1
    assert found(hold(1, 10, 3), denied | {"at": 4.0}) == []


def test_a_lease_ends_with_its_node_only_after_the_node_was_silent_for_its_timeout():
    killed = {"at": 1.0, "who": "n1", "event": "killed"}
    lines = (hold(0, 10, 10), hold(4, 11, 9))
    assert found(*lines, nodes=(killed, {"at": 5.0, "who": "n1", "event": "announced"})) == []
    assert len(found(*lines, nodes=(killed, {"at": 1.5, "who": "n1", "event": "announced"}))) == 1
    assert found(*lines, nodes=(killed,)) == []


@pytest.mark.parametrize(
    ("node", "heard_s", "faults"), [("n2", 0, 1), ("n1", 0, 0), ("n1", 1, 0), ("n1", 1.5, 1), ("n1", -9, 1)]
)
def test_a_lease_ends_with_the_timeout_of_an_expired_node(node: str, heard_s: float, faults: int):
    lines = (hold(0, 10, 10), hold(4, 11, 9))
    every = holds(lines)
    heard = datetime.fromtimestamp(heard_s, UTC).isoformat()
    cut_by_expiry(every, f"1999-01-01T00:00:04.000Z WARNING node expired node={node} last_seen={heard} slots=1", 3)
    assert len(broken(every, lines)) == faults


def test_a_call_that_does_not_end_in_time_is_found_unless_its_caller_was_killed():
    asks = [line(1, "asks", ask=name, wait=2) for name in ("a", "b", "c")]
    ends = line(2, "ends", ask="a", how="granted")
    late = line(9, "ends", ask="b", how="timeout")
    died = {"at": 3.0, "who": "b1", "event": "died"}
    assert unanswered([*asks, ends, late, died], 5) == []
    assert unanswered([*asks, ends, late], 5) == [asks[1], asks[2]]


def test_a_lease_that_comes_back_after_its_return_was_answered_is_found():
    back = line(2, "returned", slot="s1", token="10")
    assert revived([hold(1, 10, 3), back, hold(2.5, 11, 5)]) == []
    assert len(revived([hold(1, 10, 3), back, line(2.5, "revived", slot="s1", token="10")])) == 1
    assert len(revived([hold(1, 10, 3), back, hold(2.5, 10, 5)])) == 1


def test_a_task_that_ends_twice_or_is_claimed_after_its_end_is_found():
    took = {"what": "took", "worker": "w1", "tasks": ["t1"]}
    ended = {"what": "ended", "worker": "w1", "task": "t1", "status": "completed", "outcome": "ok"}
    other = took | {"worker": "w2"}
    assert ended_twice([took, ended]) == []
    assert ended_twice([took, ended | {"status": "failed"}, other]) == []
    assert ended_twice([took, other, ended, ended | {"worker": "w2", "outcome": "conflict"}]) == []
    assert len(ended_twice([took, ended, other])) == 1
    assert len(ended_twice([took, other, ended, ended | {"worker": "w2"}])) == 1

"""The part of the model that knows teams: what each holds, which is next, and what is recalled for those below theirs.

Which leases a round recalls is read from the store; that they may be recalled, that they are of use, and that none was
left out, is found out here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.machine.flows import Room, flow
from tests.machine.limits import Limits
from tests.machine.matching import Waiter
from tests.machine.records import TEAMS, Grant, Ticket
from tests.machine.suiting import is_suited

ANEW = 1000  # the leases that teams have had are counted anew from here
COMING_MS = 120_000  # for so long a slot is on its way after the end of a lease that was recalled


class Row(NamedTuple):
    """What a team is to have of some pools."""

    guarantee: int = 0
    ceiling: int | None = None
    weight: float = 1


@dataclass
class Need:
    """A team below its guarantee: how many leases it lacks, and the tickets of it that wait."""

    team: str
    missing: int
    tickets: list[Ticket]


@dataclass
class Teaming(Limits):
    """Rows of teams, and what follows from them."""

    rows: dict[tuple[str, str], Row] = field(default_factory=dict)  # by pattern and team
    rows_number: int = 0  # of their last change
    had: dict[str, dict[str, float]] = field(default_factory=dict)  # by pattern and team: leases by weight
    floors: dict[str, float] = field(default_factory=dict)  # by pattern: of the team that was served last
    ties: dict[str, dict[str, float]] = field(default_factory=dict)  # by pattern: of the teams that hold or wait
    recalled_under: dict[str, set[str]] = field(default_factory=dict)  # by pattern, as the store lists them
    in_line: set[str] = field(default_factory=set)  # tickets that have joined
    stand_back: dict[str, set[str]] = field(default_factory=dict)  # label -> teams that no freed slot finds for its cap
    roomy_teams: list[str] = field(default_factory=list)  # teams that have come below a ceiling in this script

    # -- what counts where

    @property
    def patterns(self) -> set[str]:
        return {pattern for pattern, _ in self.rows}

    def pattern_of(self, pool: str) -> str | None:
        """Return the pattern whose rows count for a pool."""
        fitting = [p for p in self.patterns if re.fullmatch(re.escape(p).replace(r"\*", ".*"), pool)]
        return min(fitting, key=lambda pattern: (-len(pattern), pattern), default=None)

    def has_teams(self, pool: str) -> bool:
        return self.pattern_of(pool) is not None

    def row(self, pattern: str, team: str) -> Row:
        return self.rows.get((pattern, team), Row())

    def leases(self, pattern: str, team: str) -> list[str]:
        """Return what a team holds under a pattern, the oldest first."""
        found = [(grant.granted_ms, slot) for slot, grant in self.grants.items() if TEAMS[grant.user or ""] == team]
        return [slot for _, slot in sorted(found) if self.pattern_of(self.slots[slot].pool) == pattern]

    def held(self, pattern: str, team: str) -> int:
        return len(self.leases(pattern, team))

    def kept_for(self, pattern: str, team: str) -> int:
        """Return for how many leases room is kept under a ceiling, for the reserver of a team."""
        ticket = self.tickets.get(self.reserver.ticket) if self.reserver else None
        if not self.reserver or not ticket or TEAMS[ticket.wanted.user] != team:
            return 0
        return sum(count for label, count in self.reserver.units.items() if self.pattern_of(label) == pattern)

    def is_full(self, pattern: str, team: str, *, with_kept: bool = True) -> bool:
        ceiling = self.row(pattern, team).ceiling
        kept = self.kept_for(pattern, team) if with_kept else 0
        return ceiling is not None and self.held(pattern, team) + kept >= ceiling

    def ceiling_of(self, pool: str, user: str) -> tuple[str, int] | None:
        pattern = self.pattern_of(pool)
        ceiling = self.row(pattern, TEAMS[user]).ceiling if pattern else None
        return None if pattern is None or ceiling is None else (f"team {pattern}", ceiling)

    def counted_teams(self, user: str, *, own: bool = False) -> dict[str, int]:
        team = TEAMS[user]
        return {f"team {p}": self.held(p, team) + (0 if own else self.kept_for(p, team)) for p in self.patterns}

    def end_reserve(self) -> None:
        ticket = self.tickets.get(self.reserver.ticket) if self.reserver else None
        if ticket and self.rows and self.turns:
            self.roomy_teams.append(TEAMS[ticket.wanted.user])
        super().end_reserve()

    def shortfall(self) -> int:
        """Return how much all teams lack of their guarantees."""
        return sum(max(0, row.guarantee - self.held(*name)) for name, row in self.rows.items())

    # -- who waits, and in which order

    def labels_of(self, team: str, besides: Ticket | None = None) -> set[str]:
        """Return the labels for which a team waits, with other tickets than this one."""
        tickets = [each for each in self.waiting() if TEAMS[each.wanted.user] == team and each is not besides]
        return {label for ticket in tickets for label, _ in ticket.wanted.asks}

    def concerned(self, label: str) -> list[str]:
        """Return the patterns that may fit a pool which serves a label, as far as the text before the `*` says."""
        wild = self.options[2] == "1" and "*" in label.split(":")
        heads = {pattern: pattern.partition("*")[0] for pattern in self.patterns}
        return [p for p, head in heads.items() if wild or label.startswith(head) or head.startswith(f"{label}:")]

    def count_had(self, pattern: str, team: str) -> float:
        return max(self.had.get(pattern, {}).get(team, 0), self.floors.get(pattern, 0))

    def note_share(self, pattern: str, team: str, *, enters: bool = False) -> None:
        """Place a team anew among its equals, or forget it when it neither holds nor waits."""
        ties = self.ties.setdefault(pattern, {})
        held = self.held(pattern, team)
        if held == 0 and not enters and not self.labels_of(team):
            ties.pop(team, None)
        elif held or enters or team in ties:
            ties[team] = self.count_had(pattern, team)

    def share(self, pattern: str, team: str) -> float:
        row, held = self.row(pattern, team), self.held(pattern, team)
        return held / row.guarantee - 2 if held < row.guarantee else held / row.weight

    def in_order(self, pattern: str) -> list[str]:
        """Return the teams that may have a slot, the one that is to have it first."""
        ties = self.ties.get(pattern, {})
        some = [team for team in ties if not self.is_full(pattern, team)]
        return sorted(some, key=lambda team: (self.share(pattern, team), ties[team], team))

    def next_waiter(self, pool: str, attributes: str) -> Waiter | None:
        pattern = self.pattern_of(pool)
        if pattern is None:
            return super().next_waiter(pool, attributes)
        while True:
            found = (self.next_of(team, pool, attributes) for team in self.in_order(pattern))
            waiter = next((each for each in found if each), None)
            if not waiter or self.heard(waiter.ticket.hub):
                return waiter
            self.set_aside(waiter.ticket)

    def next_of(self, team: str, pool: str, attributes: str) -> Waiter | None:
        """Return the ticket of a team that is to have such a slot: by the turns of labels, then the first."""
        for label in self.turns:
            stands_back = self.stand_back.setdefault(label, set())
            if label not in self.labels_of(team) or not self.serves(pool, label) or team in stands_back:
                continue
            if self.capped(label):
                stands_back.add(team)
                continue
            if some := [t for t in self.suited(label, attributes) if TEAMS[t.wanted.user] == team]:
                return Waiter(some[0], label)
        return None

    def reoffer(self, label: str) -> None:
        super().reoffer(label)
        if label in self.turns and not self.capped(label):
            self.stand_back.pop(label, None)

    def take(self, pool: str, where: str = "", prefer: Any = ()) -> str | None:
        pattern = self.pattern_of(pool)
        if pattern and self.asked_for is not None and not self.may_serve(pattern, self.asked_for):
            return None
        if pattern and self.asking is not None and self.is_full(pattern, self.asking):
            if not where or self.classes_by_age(pool):
                self.under_maintenance(pool)  # looking ends it
            return None
        return super().take(pool, where, prefer)

    def may_serve(self, pattern: str, label: str) -> bool:
        """Return whether anybody who wants nothing but a label may have a slot under a pattern."""
        plain = [t for t in self.waiting() if (label, "") in t.wanted.asks]
        return any(not self.is_full(pattern, TEAMS[ticket.wanted.user]) for ticket in plain)

    def join(self, ticket: Ticket, hub: str, until_ms: int) -> None:
        team = TEAMS[ticket.wanted.user]
        before = self.labels_of(team, besides=ticket if ticket.wanted.id not in self.in_line else None)
        super().join(ticket, hub, until_ms)
        self.in_line.add(ticket.wanted.id)
        for label in self.labels_of(team) - before:
            for pattern in self.concerned(label):
                self.note_share(pattern, team, enters=True)

    def step_out(self, ticket: Ticket, state: str) -> None:
        team = TEAMS[ticket.wanted.user]
        before = self.labels_of(team)
        super().step_out(ticket, state)
        self.in_line.discard(ticket.wanted.id)
        for label in before - self.labels_of(team):
            self.stand_back.get(label, set()).discard(team)
        if before and not self.labels_of(team):
            for pattern in self.patterns:
                self.note_share(pattern, team)

    # -- grants

    def note_grant(self, slot: str) -> None:
        pattern, team = self.pattern_of(self.slots[slot].pool), TEAMS[self.grants[slot].user or ""]
        if pattern:
            self.count(pattern, team)
            ceiling = self.row(pattern, team).ceiling
            held = self.held(pattern, team)
            assert ceiling is None or held <= ceiling, f"{team} has {held} of {pattern}: {slot} is above its ceiling"

    def count(self, pattern: str, team: str) -> None:
        before = self.count_had(pattern, team)
        had = self.had.setdefault(pattern, {})
        had[team], self.floors[pattern] = before + 1 / self.row(pattern, team).weight, before
        self.note_share(pattern, team)
        if before >= ANEW:
            self.had[pattern] = {each: count - before for each, count in had.items() if count > before}
            del self.floors[pattern]
            for each in list(self.ties[pattern]):
                self.note_share(pattern, each)

    def end(self, slot: str, by_holder: bool = False) -> Grant:
        pattern, team = self.pattern_of(self.slots[slot].pool), TEAMS[self.grants[slot].user or ""]
        was_full = pattern is not None and self.is_full(pattern, team)
        grant = super().end(slot, by_holder)
        if pattern:
            self.note_share(pattern, team)
        if was_full and self.turns:
            self.roomy_teams.append(team)
        return grant

    def serve_teams(self) -> None:
        while self.roomy_teams:
            self.serve_team(self.roomy_teams.pop(0))

    def serve_team(self, team: str) -> None:
        known = self.oracle.labels_of(team)
        for label in sorted(self.labels_of(team), key=lambda each: (known.index(each) if each in known else 99, each)):
            self.serve_label(label, anew=True)

    # -- changes of rows

    def set_team(self, team: str, pattern: str, row: Row | None) -> list[Any]:
        if row is None and (pattern, team) not in self.rows:
            return ["ok", None]
        before = self.patterns
        waits = self.labels_of(team) if before else set()
        self.rows.pop((pattern, team), None)
        if row:
            self.rows[pattern, team] = row
        self.note_rows(before, self.token + 1)
        self.token += 1
        known = self.oracle.labels_of(team)
        for label in sorted(waits, key=lambda each: (known.index(each) if each in known else 99, each)):
            self.serve_label(label, anew=True)
        self.finish()
        return ["ok", row]

    def recall_rows(self, rows: dict[tuple[str, str], Row], number: int) -> list[Any]:
        """A hub brings back what it read last, after a loss."""
        if number <= self.rows_number:
            return ["kept"]
        before, self.rows = self.patterns, rows
        self.note_rows(before, number)
        return ["taken"]

    def note_rows(self, before: set[str], number: int) -> None:
        self.rows_number = number
        if self.patterns != before:
            for pattern in before - self.patterns:
                for slot in [slot for slot in self.grants if slot in self.recalled_under.get(pattern, ())]:
                    self.release_recall(slot)
            self.had, self.floors, self.ties = {}, {}, {}
            for pattern, team in ((pattern, team) for pattern in self.patterns for team in TEAMS.values()):
                if held := self.held(pattern, team):
                    self.had.setdefault(pattern, {})[team] = held / self.row(pattern, team).weight
                    self.note_share(pattern, team)
        for pattern, ties in self.ties.items():
            for team in list(ties):
                self.note_share(pattern, team)
        for team in TEAMS.values():
            for label in self.labels_of(team):
                for pattern in self.concerned(label):
                    self.note_share(pattern, team, enters=True)

    # -- recalls

    def release_recall(self, slot: str) -> None:
        """A lease may be renewed again."""
        self.grants[slot].recall_ms = None
        self.plan(slot)

    def recall(self, slot: str) -> None:
        grant = self.grants[slot]
        grant.recall_ms, grant.limited = self.clock_ms + max(1000, grant.ttl_ms), True
        end = self.ending(grant)
        if end and end[1] == "recall":
            grant.warned_ms = end[0]
            self.plan(slot)

    def tied(self, slot: str) -> list[str]:
        """Return the slots whose leases end with that of a slot."""
        grant = self.grants[slot]
        return self.live_of(grant.bundle) if grant.bundle and grant.together else [slot]

    def comes_back(self, slot: str) -> bool:
        """Return whether a slot that is lent, or on its way, can be lent soon after."""
        record = self.slots[slot]
        stands = record.held or record.claimed or record.node in self.stopped or record.pool in self.maintenance
        return not stands and not self.suspect(slot)

    def needs(self, pattern: str) -> list[Need]:
        """Return the teams below their guarantees that wait for what they may have."""
        found = []
        for (of, team), row in self.rows.items():
            kept = self.kept_for(pattern, team) if row.ceiling is not None else 0
            missing = row.guarantee - self.held(pattern, team) - kept if of == pattern else 0
            some = [ticket for ticket in self.waiting() if TEAMS[ticket.wanted.user] == team]
            if missing > 0 and some:
                found.append(Need(team, missing, some))
        return found

    def suits(self, slot: str, ticket: Ticket) -> bool:
        record = self.slots[slot]
        return any(
            not self.capped(label) and self.serves(record.pool, label) and is_suited(where, record.attributes)
            for label, where in ticket.wanted.asks
        )

    def matched_for(self, needs: list[Need], slots: Iterable[str]) -> int:
        """Return for how many tickets of teams that lack leases these slots can be at most, one each."""
        room: Room = {"from": dict.fromkeys(slots, 1)}
        for need in needs:
            room[f"team {need.team}"] = {"to": need.missing}
            for ticket in need.tickets:
                room[ticket.wanted.id] = {f"team {need.team}": 1}
                for slot in room["from"]:
                    if self.suits(slot, ticket):
                        room.setdefault(slot, {})[ticket.wanted.id] = 1

        return flow(room)

    def balance(self) -> list[Any]:
        """A round. What the store recalls and releases is done alike, and then judged."""
        number = str(self.rows_number) if self.rows_number else ""
        if self.settling or not self.rows:
            return ["ok", number]
        said = self.oracle.recalled(self.grants)
        before = {slot for slot, grant in self.grants.items() if grant.recall_ms}
        kept = {slot for slot in before & set(said) if not self.is_moved(slot, said[slot])}
        for slot in before - kept:
            self.release_recall(slot)
        for slot in set(said) - kept:
            self.recall(slot)
        self.recalled_under = {p: set(slots) for p, slots in self.oracle.coming(self.patterns).items()}
        listed = {slot for some in self.recalled_under.values() for slot in some}
        live = {slot for slot in listed if slot in self.grants and self.grants[slot].recall_ms}
        coming = {slot for slot in listed if slot in self.slots and self.slots[slot].place == "held"}
        tied = {other for slot in live for other in self.tied(slot)}
        waits = [
            Need("", len(live), [t for pattern in self.patterns for need in self.needs(pattern) for t in need.tickets])
        ]
        assert self.matched_for(waits, live) == len(live), f"{live} are recalled for one ticket or more each"
        for pattern in self.patterns:
            self.judge(pattern, kept, live | coming | tied)
        return ["ok", number]

    def is_moved(self, slot: str, recall_ms: int) -> bool:
        """Return whether a lease that was recalled under another pattern is recalled anew under the one of today."""
        pattern = self.pattern_of(self.slots[slot].pool)
        return recall_ms != self.grants[slot].recall_ms and slot not in self.recalled_under.get(pattern, ())

    def judge(self, pattern: str, before: set[str], there: set[str]) -> None:
        """Find out whether what is recalled after a round may be, is of use, and is enough."""
        needs, listed = self.needs(pattern), self.recalled_under[pattern]
        live = {slot for slot in listed if slot in self.grants and self.grants[slot].recall_ms}
        coming = {slot for slot in listed if slot in self.slots and self.slots[slot].place == "held"}
        ends = {slot: self.tied(slot) for slot in live}
        lost = {tied for some in ends.values() for tied in some}
        above = {}
        for team in TEAMS.values():
            held, gone = self.leases(pattern, team), len(lost & set(self.leases(pattern, team)))
            above[team] = len(held) - self.row(pattern, team).guarantee - gone
            assert not gone or above[team] >= 0, f"{team} has {held}, of which {live} of {pattern} are recalled"
        for slot in live:
            assert self.pattern_of(self.slots[slot].pool) == pattern, f"{slot} is recalled for {pattern}"
            assert slot in before or self.comes_back(slot), f"{slot} is recalled and would be held"
        use = self.matched_for(needs, live)
        assert use == len(live), f"{live} are recalled for {pattern}, and {use} of them are of use: {needs}"
        known = {*(live & before), *(slot for slot in coming if self.comes_back(slot))}
        new = live - before
        both = self.matched_for(needs, known | new)
        needless = len(known | new) - both and both < self.matched_for(needs, known) + len(new)
        assert not needless, f"{new} are recalled for {pattern} beside {known}"
        self.judge_rest(pattern, needs, there, above)

    def judge_rest(self, pattern: str, needs: list[Need], there: set[str], above: dict[str, int]) -> None:
        """Find out whether a lease could have been recalled for a ticket that nothing is there for."""
        for slot, grant in self.grants.items():
            team, tied = TEAMS[grant.user or ""], self.tied(slot)
            if slot in there or self.pattern_of(self.slots[slot].pool) != pattern or not self.comes_back(slot):
                continue
            if above[team] < len(tied) or any(self.pattern_of(self.slots[s].pool) != pattern for s in tied):
                continue
            for need in needs:
                useful = {each for each in there if any(self.suits(each, ticket) for ticket in need.tickets)}
                free = [t for t in need.tickets if not any(self.cap_of(label) for label in t.wanted.labels)]
                lacking = [t for t in free if self.suits(slot, t) and not any(self.suits(s, t) for s in useful)]
                assert not lacking or need.missing <= len(useful), f"{slot} could be recalled for {lacking[0].wanted}"

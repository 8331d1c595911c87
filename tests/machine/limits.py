"""The part of the model that knows the rules of pools: when grants end by them, and what their holders were told."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.machine.holds import Holds
from tests.machine.records import Grant, is_foreign


class PoolRule(NamedTuple):
    """A rule; None: it says nothing of that."""

    hold: int | None = None
    idle: int | None = None
    ttl: int | None = None
    warn: int | None = None

    @property
    def warn_ms(self) -> int:
        return self.warn or min(60_000, *(each // 2 for each in (self.hold or 120_000, self.idle or 120_000)))


@dataclass
class Limits(Holds):
    """Rules by pattern, and the grants that end by them."""

    rules: dict[str, PoolRule] = field(default_factory=dict)
    ruled: int = 0  # number of the last change
    limits: dict[str, int] = field(default_factory=dict)  # slot -> when something is due for its grant

    def rule_of(self, pool: str) -> PoolRule | None:
        fitting = [
            pattern
            for pattern in sorted(self.rules, key=lambda each: (-len(each), each))
            if re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), pool)
        ]
        return self.rules[fitting[0]] if fitting else None

    def set_rule(self, pattern: str, changes: dict[str, int | None]) -> list[Any]:
        rule = self.rules.get(pattern, PoolRule())._replace(**changes)
        shortest = min((each for each in (rule.hold, rule.idle) if each), default=None)
        if rule.warn and shortest and rule.warn >= shortest:
            return ["short", shortest]
        self.rules.pop(pattern, None)
        if rule.hold or rule.idle or rule.ttl:
            self.rules[pattern] = rule
        self.ruled = self.next_number()
        return ["ok", self.rules.get(pattern)]

    def length(self, slot: str, ttl_ms: int) -> int:
        rule = self.rule_of(self.slots[slot].pool)
        ms = rule.ttl if ttl_ms < 0 and rule and rule.ttl else abs(ttl_ms)
        return min(ms, rule.hold) if rule and rule.hold else ms

    def lend(self, slot: str, token: int, label: str, run: str, ttl_ms: int, idle_ms: int) -> None:
        rule = self.rule_of(self.slots[slot].pool)
        idle = rule.idle if rule and rule.idle else idle_ms
        super().lend(slot, token, label, run, self.length(slot, ttl_ms), idle)
        if rule:
            grant = self.grants[slot]
            grant.limited, grant.hold_ms, grant.warn_ms = True, rule.hold, rule.warn_ms
            grant.base_idle_ms = idle_ms if rule.idle else None
            self.plan(slot)

    def end(self, slot: str, by_holder: bool = False) -> Grant:
        self.limits.pop(slot, None)
        return super().end(slot, by_holder)

    def ending(self, grant: Grant) -> tuple[int, str] | None:
        ends = []
        if grant.hold_ms:
            ends.append((grant.granted_ms + grant.hold_ms, "max-hold"))
        if grant.idle_ms and grant.active_ms is not None:
            ends.append((max(grant.active_ms + grant.idle_ms, grant.paused_ms), "idle"))
        found = min(ends, key=lambda end: end[0], default=None)
        if found:
            found = (max(found[0], grant.spared_ms), found[1])
        if grant.recall_ms and not (found and found[0] < grant.recall_ms):
            return grant.recall_ms, "recall"
        return found

    def plan(self, slot: str) -> None:
        grant = self.grants[slot]
        end = self.ending(grant)
        if grant.warned_ms and (end is None or grant.warned_ms != end[0]):
            grant.warned_ms = None
        self.limits.pop(slot, None)
        if end:
            ahead = grant.warn_ms or min(60_000, grant.idle_ms // 2)
            self.limits[slot] = end[0] if grant.warned_ms else end[0] - ahead

    def note_use(self, slot: str, pause_ms: int | None, max_ms: int) -> None:
        grant = self.grants[slot]
        grant.active_ms, grant.limited = self.clock_ms, True
        if pause_ms is not None:
            grant.paused_ms = min(self.clock_ms + pause_ms, self.latest(grant, grant.granted_ms + max_ms))
        if grant.idle_ms:
            grant.idle_footprint, grant.ran_out = True, False
        self.plan(slot)

    def latest(self, grant: Grant, latest_ms: int) -> int:
        latest_ms = min(latest_ms, grant.recall_ms or latest_ms)
        if not grant.hold_ms:
            return latest_ms
        return min(latest_ms, max(grant.granted_ms + grant.hold_ms, grant.spared_ms))

    def use(self, slot: str, token: str, pause_ms: int | None, max_ms: int, by: str) -> list[Any]:
        if refused := self.not_held(slot, token, by):
            return refused
        self.note_use(slot, pause_ms, max_ms)
        grant = self.grants[slot]
        end = self.ending(grant)
        ends = [end[0] - self.clock_ms, end[1]] if end else [-1, ""]
        paused_ms = max(0, grant.paused_ms - self.clock_ms)
        return ["ok", str(grant.token), grant.deadline_ms - self.clock_ms, grant.idle_ms, *ends, paused_ms]

    def not_held(self, slot: str, token: str, by: str) -> list[Any]:
        """Return the answer to a caller that may not renew or use a lease; [] for one that may."""
        grant = self.grants.get(slot)
        if grant and self.settling and grant.deadline_ms <= self.clock_ms:
            return ["settling"]
        if not grant or (token and str(grant.token) != token) or grant.deadline_ms <= self.clock_ms:
            return ["over"]
        return ["not-holder", grant.holder, ""] if is_foreign(by, grant.user, bool(token)) else []

    def enforce(self, limit: int) -> list[Any]:
        due = sorted((at, slot) for slot, at in self.limits.items() if at <= self.clock_ms)[:limit]
        done: list[str] = []
        for _, slot in [] if self.settling else due:
            token = str(self.grants[slot].token) if slot in self.grants else ""
            believes = slot in self.grants and self.grants[slot].deadline_ms > self.clock_ms
            bundle = self.torn_by(slot)
            pool, word = self.slots[slot].pool, self.look_at(slot)
            grace_ms = self.grace_ms if believes and word in ("idle", "max-hold", "recall") else 0
            done += [slot, word, pool, token, grace_ms, bundle]
        return ["ok", str(self.ruled) if self.ruled else "", done]

    def torn_by(self, slot: str) -> str:
        """Return the bundle whose grants end with that of a slot, "" for none."""
        grant = self.grants.get(slot)
        return grant.bundle if grant and grant.bundle and grant.together else ""

    def look_at(self, slot: str) -> str:
        grant = self.grants.get(slot)
        end = self.ending(grant) if grant else None
        if not grant or not end:
            self.limits.pop(slot, None)
            return "none"
        at_ms, why = end
        if why == "idle" and at_ms <= self.clock_ms and grant.idle_footprint:  # its node says that it is used
            self.note_use(slot, None, 0)
            return "later"
        if grant.warned_ms != at_ms:
            self.plan(slot)
            if self.limits[slot] > self.clock_ms:
                return "later"
            grant.warned_ms = at_ms
            self.plan(slot)
            return "warned"
        if at_ms > self.clock_ms:
            self.plan(slot)
            return "later"
        if grant.deadline_ms > self.clock_ms:
            self.revoke(slot)
        self.release(slot, mark=True)
        return why

    def refresh(self, slot: str) -> None:
        """A sweep gives a live grant the present rule of its pool."""
        grant, rule = self.grants[slot], self.rule_of(self.slots[slot].pool)
        if not (grant.limited or rule):
            return
        base = grant.idle_ms if grant.base_idle_ms is None else grant.base_idle_ms
        idle = rule.idle if rule and rule.idle else base
        hold, warn = (rule.hold, rule.warn_ms) if rule else (None, None)
        if (grant.hold_ms, grant.idle_ms, grant.warn_ms) == (hold, idle, warn):
            return
        stricter = (hold and hold < (grant.hold_ms or 10**12)) or (idle and (idle < grant.idle_ms or not grant.idle_ms))
        if stricter:
            grant.spared_ms = self.clock_ms + (warn or 0)
        if idle != grant.idle_ms:
            grant.idle_footprint, grant.ran_out = bool(idle), False
        grant.hold_ms, grant.idle_ms, grant.warn_ms, grant.limited = hold, idle, warn, True
        grant.base_idle_ms = base if idle != base else None
        self.plan(slot)

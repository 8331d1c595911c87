"""Teams that share pools: rows change, members borrow, leases are recalled; and the rules for that."""

from __future__ import annotations

import json
from typing import Any

from tests.machine.flight.base import FENCE_S, Errand
from tests.machine.flight.box import NODE_S, TEAMS, Box, Call
from tests.machine.flight.fleet import KEYS, OF
from tests.machine.flight.lend import LONG_S, TTL_S
from tests.machine.flight.needing import Needing

PATTERN = "gpu:*"
ROWS: tuple[dict[str, int | None], ...] = (
    {"guarantee": 1, "ceiling": None}, {"guarantee": 2, "ceiling": 3}, {"guarantee": 3, "ceiling": None},
    {"guarantee": 0, "ceiling": 1}, {"guarantee": 0, "ceiling": 2},
)  # fmt: skip


class Teams(Needing):
    """Set rows, and borrow as a member of a team."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.rows: dict[str, tuple[dict[str, Any], float, int, Box]] = {}  # team -> row, when, last token, its hub

    # -- steps

    async def do_set_team(self, a: int, b: int, c: int) -> None:
        team, row = sorted(TEAMS)[a % len(TEAMS)], ROWS[c % len(ROWS)]
        self.rows.pop(team, None)

        def took(call: Call, box: Box) -> None:
            others = [c for e in self.errands if e.path == path and e is not errand for c, _ in e.calls]
            if call.status == 200 and not any(not c.unread and self.now_s - c.sent_s < FENCE_S for c in others):
                self.rows[team] = row, self.now_s, self.last_token(), box

        path = f"/admin/teams/{team}"
        body = {"label": PATTERN, "weight": 1 + c % 2, **row}
        errand = Errand("team", "PUT", path, body, took, repeatable=False)
        await self.send(errand, self.box(b))

    async def do_borrow_as(self, a: int, b: int, c: int) -> None:
        await self.borrow_as(a, b, c)

    async def do_wait_as(self, a: int, b: int, c: int) -> None:
        await self.borrow_as(a, b, c, wait_s=15)

    async def borrow_as(self, a: int, b: int, c: int, wait_s: float = 0) -> None:
        secret, ttl_s = TEAMS[sorted(TEAMS)[c // 4 % len(TEAMS)]], TTL_S if c % 4 < 2 else LONG_S
        await self.borrow(a, self.box(b), keyed=c % 2 == 1, wait_s=wait_s, ttl_s=ttl_s, secret=secret)

    # -- rules

    def was_given(self, call: Call, box: Box, key: str) -> None:
        token, known = int(call.answer["leaseToken"]), set(self.told)
        super().was_given(call, box, key)
        team = next((team for team, secret in TEAMS.items() if secret == call.secret), "")
        if token in known or not team:
            return
        self.heard["lent to a team"] += 1
        row, since_s, since, by = self.rows.get(team, ({}, 0.0, 0, box))
        most = row.get("ceiling")
        if most and max(since_s, self.lost_s) < call.sent_s and token > since and self.has_spoken(by):
            others = [h for h in self.holders if h.secret == call.secret and h.token != token]
            lent = [h for h in others if self.redis.hget(f"session:{h.slot}", "leaseToken") == str(h.token)]
            if len(lent) >= most:
                self.complain("ceiling", f"{team} is given {self.told[token].slot}, and has {len(lent)} of {most}")

    def held_by(self, team: str) -> set[str]:
        """Return the slots that a team has, as the store says."""
        found = {slot: json.loads(self.redis.hget(f"session:{slot}", "holder") or "{}") for slot in OF}
        return {slot for slot, holder in found.items() if holder.get("team") == team}

    def row_of(self, team: str) -> dict[str, Any]:
        """Return its row, as the store says."""
        return dict(json.loads(self.redis.hget(KEYS.teams, f"{PATTERN}\t{team}") or "{}"))

    def at_ceiling(self, call: Call) -> bool:
        """Return whether the team of a caller may have nothing more."""
        team = next((team for team, secret in TEAMS.items() if secret == call.secret), "")
        most = self.row_of(team).get("ceiling") if team else None
        return most is not None and len(self.held_by(team)) >= most

    def below(self) -> str:
        """Return a team of which leases are recalled that it is guaranteed."""
        recalled = set(self.redis.zrange(KEYS.recalled(PATTERN), 0, -1))
        for team in TEAMS if recalled else ():
            held, least = self.held_by(team), self.row_of(team).get("guarantee") or 0
            if recalled & held and len(held - recalled) < least:
                return f"of {held} of {team} {recalled & held} are recalled, and it is guaranteed {least}"
        return ""

    def lose(self, kept: set[tuple[str, int]], graced: set[str]) -> None:
        heard_s = self.down_s or self.now_s
        super().lose(kept, graced)
        for team, (_, at_s, _, box) in list(self.rows.items()):
            if box.frozen and heard_s - at_s < NODE_S / 3:  # no other hub may have read it yet
                del self.rows[team]

    def observe(self) -> None:
        super().observe()
        if self.stage.up:
            self.heard["recalled"] += self.redis.exists(KEYS.recalled(PATTERN))

"""Teams that share pools, at the scripts themselves."""

from __future__ import annotations

import json

import pytest

from tests.capacity.bundles.conftest import Bundles
from tests.capacity.matching.conftest import server, stage
from tests.machine.direct import Direct

__all__ = ["server", "stage"]


class Teams(Bundles):
    """Nodes, and borrowers of several teams at one hub."""

    def team(
        self, team: str, pattern: str = "gpu:*", guarantee: int = 0, ceiling: int | None = None, weight: float = 1
    ) -> None:
        """Set the row of a team."""
        row = {"guarantee": guarantee, "weight": weight, "by": "t"} | ({} if ceiling is None else {"ceiling": ceiling})
        self.direct.call("teams/set", team=team, pattern=pattern, row=json.dumps(row), most=100)

    def remove(self, team: str, pattern: str = "gpu:*") -> None:
        self.direct.call("teams/set", team=team, pattern=pattern, row="", most=100)

    def want(
        self, team: str, label: str = "gpu:a", *, ttl_ms: int = 60_000, wait: int = 600_000, fast: bool = False
    ) -> str:
        """Borrow for a team; return the slot, or the ticket that waits."""
        self.count += 1
        ticket = f"t{self.count}"
        user = f"u-{team}" if team else ""
        holder = {"user": user or None, "team": team or None, "name": "n", "client": ""}
        holder |= {"userId": user} if user else {}
        named = {
            "label": label, "ttl_ms": ttl_ms, "idle_ms": 0, "run": ticket, "holder": json.dumps(holder),
            "request": ticket, "attempt": f"try-{ticket}", "fingerprint": "f", "keep_s": 60,
        }  # fmt: skip
        if fast:
            answer = self.direct.call("capacity/lend_now", **named)
            return str(answer[1]) if answer[0] == "ok" else str(answer[0])
        answer = self.direct.call(
            "capacity/borrow", **named, alternatives="", prefer="", keyed="", repeated="", hub="h1", wait_ms=wait,
            limit_ms=-1, priority=0, max_label=1000, max_run=1000,
        )  # fmt: skip
        return self.told(answer, ticket)

    def told(self, answer: list[object], ticket: str) -> str:
        """Return the slot of an answer, or its ticket, after the round that a hub does within a second."""
        if answer[0] != "waiting":
            return str(answer[1] if answer[0] == "ok" else answer[0])
        self.direct.call("teams/balance")
        return ticket

    def held(self, team: str, pattern: str = "gpu:*") -> int:
        return int(self.redis.zcard(f"hub:team_leases:{pattern}\t{team}"))

    def serve_rounds(self) -> None:
        self.direct.call("teams/balance")
        self.direct.call("capacity/enforce", limit=32)

    def renew(self, slot: str, ttl_ms: int = 60_000) -> int | str:
        token = self.redis.hget(f"session:{slot}", "leaseToken")
        answer = self.direct.call(
            "capacity/renew", slot=slot, token=token or "", ttl_ms=ttl_ms, max_ms=86_400_000, by="operator"
        )
        return answer[2] if answer[0] == "ok" else str(answer[0])


@pytest.fixture
def fleet(stage: Direct) -> Teams:
    return Teams(stage)

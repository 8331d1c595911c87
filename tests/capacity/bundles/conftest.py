"""Borrowers of several slots at once, at the scripts themselves."""

from __future__ import annotations

import json

import pytest

from hub.capacity.models import slot_item
from hub.capacity.where import parse
from tests.capacity.matching.conftest import Fleet, server, stage
from tests.machine.direct import Direct

__all__ = ["server", "stage"]


class Bundles(Fleet):
    """Nodes that publish slots, and borrowers of bundles at one hub."""

    def node(self, node: str, count: int, pool: str = "gpu:a", *, first: int = 1, policy: str = "reuse") -> list[str]:
        """Register a node that publishes so many plain slots; return their ids."""
        self.direct.call(
            "nodes/register", id=node, part=node, apps="", capacity=1, labels="{}", base_url="", timeout_ms=60_000,
            audit_new="{}", audit_old="{}", audit_max=10, incarnation="", said_term="", first="", host="",
            token_ms=60_000,
        )  # fmt: skip
        slots = [f"{node}-{n}" for n in range(first, first + count)]
        for slot in slots:
            facts = (slot, pool, slot_item(node, slot, "", {}), *[""] * 12)
            self.direct.call(
                "capacity/publish", id=node, part=node, policy=policy, ttl_ms=1000, incarnation="", said_number="",
                says="", classes_max=64, rest=facts,
            )  # fmt: skip
        return slots

    def ask(
        self, *parts: tuple[str, str, int], same_node: bool = False, together: bool = False, wait: int = 60_000,
        request: str = "", attempt: str = "", repeated: bool = False, hub: str = "h1", hopes: bool = False,
        keyed: bool = False, priority: int = 0,
    ) -> list[object]:  # fmt: skip
        """Return the answer to a borrow of several slots: parts are (label, where, count)."""
        self.count += 1
        ticket, rows = request or f"t{self.count}", []
        for label, where, count in parts:
            wanted = parse(where) if where else None
            rows.append([label, wanted.want if wanted else "", wanted.tree if wanted else "", where, count])
        wish = {"parts": rows, "sameNode": same_node, "together": together}
        answer: list[object] = self.direct.call(
            "capacity/borrow_all", bundle=json.dumps(wish), ttl_ms=1_000_000, idle_ms=0, run=ticket, holder="",
            request=ticket, attempt=attempt or f"try-{ticket}", fingerprint="f", keep_s=60, keyed=int(keyed),
            repeated=int(repeated), hub=hub, wait_ms=wait, limit_ms=-1, priority=priority, max_label=1000,
            max_run=1000, hopes=int(hopes),
        )  # fmt: skip
        return answer

    def all_of(self, *parts: tuple[str, str, int], **more: object) -> list[str] | str:
        """Return the slots that are lent, in order; the ticket that waits, or why not."""
        answer = self.ask(*parts, **more)  # type: ignore[arg-type]
        if answer[0] == "ok":
            return [row[0] for row in answer[2]]  # type: ignore[attr-defined]
        return f"t{self.count}" if answer[0] == "waiting" else str(answer[0])

    def held_by(self, ticket: str) -> set[str]:
        """Return the slots that a ticket has got."""
        return set(self.redis.zrange(f"hub:run:{ticket}", 0, -1))

    def round(self, patience: int = 30_000, reserve: int = 900_000) -> tuple[str, int]:
        """Do a round; return the ticket of the reserver, and how many slots are set aside."""
        _, ticket, count, _ = self.direct.call("capacity/serve_bundles", patience_ms=patience, reserve_ms=reserve)
        return ticket, count

    def wait(self, ms: int) -> None:
        """Let time pass at a hub that ticks."""
        self.direct.wait(ms)
        self.direct.tick("h1")

    def free(self, pool: str = "gpu:a") -> int:
        return int(self.redis.llen(f"available:{pool}"))


@pytest.fixture
def fleet(stage: Direct) -> Bundles:
    return Bundles(stage)

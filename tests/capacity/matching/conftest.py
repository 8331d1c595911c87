"""A node that publishes slots with attributes, and borrowers that want them, at the scripts themselves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from hub.capacity.attributes import read_attributes
from hub.capacity.models import slot_item
from hub.capacity.where import parse
from tests.machine.direct import Direct
from tests.world import RedisServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(Path(tmp_path_factory.mktemp("redis"))) as running:
        yield running


@pytest.fixture(scope="module")
def stage(server: RedisServer) -> Iterator[Direct]:
    direct = Direct(server)
    yield direct
    direct.close()


class Fleet:
    """A node that publishes slots, and borrowers at one hub."""

    def __init__(self, direct: Direct) -> None:
        self.direct, self.redis, self.count = direct, direct.redis, 0
        direct.clear("110", 0, 0, {})
        direct.tick("h1")
        self.register("")

    def register(self, incarnation: str) -> None:
        self.direct.call(
            "nodes/register",
            id="n",
            part="n",
            apps="",
            capacity=1,
            labels="{}",
            base_url="",
            timeout_ms=60_000,
            audit_new="{}",
            audit_old="{}",
            audit_max=10,
            incarnation=incarnation,
            said_term="",
            first="",
            host="",
            token_ms=60_000,
        )

    def publish(
        self,
        slot: str,
        pool: str = "gpu:a",
        attributes: object = None,
        warm: str = "",
        most: int = 64,
        number: str = "",
    ) -> str:
        typed = "" if attributes is None else read_attributes(attributes)
        _, [word], _, [note] = self.direct.call(
            "capacity/publish",
            id="n",
            part="n",
            policy="reuse",
            ttl_ms=1000,
            incarnation="i" if number else "",
            said_number=number,
            says="",
            classes_max=most,
            rest=(slot, pool, slot_item("n", slot, "", {}), "", "", "", "", "", "", "", "", "", "", typed, warm),
        )
        return note or word

    def borrow(
        self, *alternatives: tuple[str, str], prefer: str = "", wait: int = 60_000, priority: int = 0, hub: str = "h1"
    ) -> str:
        """Return the slot that is lent, or the ticket that waits."""
        self.count += 1
        ticket, rows = f"t{self.count}", []
        for label, where in alternatives:
            wanted = parse(where) if where else None
            rows.append([label, wanted.want if wanted else "", wanted.tree if wanted else "", where])
        plain = not prefer and len(rows) == 1 and not rows[0][1]
        answer = self.direct.call(
            "capacity/borrow",
            label=rows[0][0],
            alternatives="" if plain else json.dumps(rows),
            prefer=prefer,
            ttl_ms=1_000_000,
            idle_ms=0,
            run=ticket,
            holder="",
            request=ticket,
            attempt=f"try-{ticket}",
            fingerprint="f",
            keep_s=60,
            keyed="",
            repeated="",
            hub=hub,
            wait_ms=wait,
            limit_ms=-1,
            priority=priority,
            max_label=1000,
            max_run=1000,
        )
        if answer[0] == "ok":
            return str(answer[1])
        return ticket if answer[0] == "waiting" else str(answer[0])

    def give_back(self, slot: str) -> None:
        self.direct.call(
            "capacity/give_back",
            slot=slot,
            hint="gpu:a",
            token=self.redis.hget(f"session:{slot}", "leaseToken") or "",
            run="",
            only_run="",
            request=f"r{self.direct.calls}",
            keyed="",
            keep_s=60,
            arrived_ms="",
            revokes="",
            reason="",
            by="operator",
        )

    def holder(self, slot: str) -> str | None:
        return self.redis.hget(f"session:{slot}", "runId")

    def waiting(self) -> set[str]:
        return {t for key in self.redis.keys("hub:line:*") for t in self.redis.zrange(key, 0, -1)}

    def leftovers(self) -> set[str]:
        kinds = ("want", "want_line", "lines", "all_lines", "fit", "fitting", "parked")
        return {key for key in self.redis.keys("hub:*") if key.split(":")[1] in kinds}


@pytest.fixture
def fleet(stage: Direct) -> Fleet:
    return Fleet(stage)

"""What teams do in more than one call: they want others than a label, wait for seconds, and leave."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hub.capacity.where import parse
from tests.capacity.teams.conftest import Teams


def holder_of(team: str, **more: object) -> str:
    """Return the holder of a user of a team, as hubs write it; team '' is the shared secret."""
    user = f"u-{team}" if team else ""
    said = {"user": user or None, "team": team or None, "name": "n", "client": ""} | ({"userId": user} if user else {})
    return json.dumps(said | more)


def _rows(some: Sequence[tuple[object, ...]]) -> list[list[object]]:
    rows = []
    for label, where, *count in some:
        wanted = parse(str(where)) if where else None
        rows.append([label, wanted.want if wanted else "", wanted.tree if wanted else "", where, *count])
    return rows


def want_any(
    fleet: Teams, team: str, *alternatives: tuple[str, str], prefer: str = "", ttl_ms: int = 60_000,
    wait: int = 600_000, hub: str = "h1", keyed: bool = False, attempt: str = "",
) -> str:  # fmt: skip
    """Borrow one of some alternatives (label, where) for a team; return the slot, or the ticket that waits."""
    fleet.count += 1
    ticket, rows = f"t{fleet.count}", _rows(alternatives)
    plain = not prefer and len(rows) == 1 and not rows[0][1]
    answer = fleet.direct.call(
        "capacity/borrow", label=rows[0][0], alternatives="" if plain else json.dumps(rows), prefer=prefer,
        ttl_ms=ttl_ms, idle_ms=0, run=ticket, holder=holder_of(team), request=ticket,
        attempt=attempt or f"try-{ticket}", fingerprint="f", keep_s=60, keyed="1" if keyed else "", repeated="",
        hub=hub, wait_ms=wait, limit_ms=-1, priority=0, max_label=1000, max_run=1000,
    )  # fmt: skip
    return fleet.told(answer, ticket)


def want_all(
    fleet: Teams, team: str, *parts: tuple[str, str, int], together: bool = False, ttl_ms: int = 60_000,
    wait: int = 600_000,
) -> list[str] | str:  # fmt: skip
    """Borrow several slots at once for a team; return them, the ticket that waits, or why not."""
    fleet.count += 1
    ticket = f"t{fleet.count}"
    wish = {"parts": _rows(parts), "sameNode": False, "together": together}
    answer = fleet.direct.call(
        "capacity/borrow_all", bundle=json.dumps(wish), ttl_ms=ttl_ms, idle_ms=0, run=ticket, holder=holder_of(team),
        request=ticket, attempt=f"try-{ticket}", fingerprint="f", keep_s=60, keyed=0, repeated=0, hub="h1",
        wait_ms=wait, limit_ms=-1, priority=0, max_label=1000, max_run=1000, hopes=1,
    )  # fmt: skip
    if answer[0] == "ok":
        return [row[0] for row in answer[2]]
    return ticket if answer[0] == "waiting" else str(answer[0])


def leave(fleet: Teams, ticket: str) -> None:
    """An operator cancels a ticket."""
    fleet.direct.call("queue/cancel", ticket=ticket, recalled="", by="operator")


def look_after(fleet: Teams, *nodes: str, seconds: int = 1, dead: bool = False) -> None:
    """Let seconds pass in which nodes beat and a hub does its rounds."""
    for _ in range(seconds):
        fleet.direct.wait(1000)
        if not dead:
            fleet.direct.tick("h1")
        for node in nodes:
            fleet.direct.call("nodes/beat", timeout_ms=60_000, rest=(node, node, 0, ""))
        fleet.serve_rounds()
        now_ms = int(fleet.redis.hget("hub:store", "clock_ms"))
        leases = fleet.redis.zrange("hub:deadlines", "-inf", now_ms, byscore=True)
        if leases:
            fleet.direct.call("capacity/lapse", rest=leases)
        fleet.direct.call("capacity/relend", limit=32)
        fleet.direct.call("capacity/serve_bundles", patience_ms=30_000, reserve_ms=900_000)


def review(fleet: Teams) -> None:
    """A hub looks at all queues, as it does once a second."""
    fleet.direct.call("queue/review", rest=fleet.redis.zrange("hub:turns", 0, -1))


def recalled(fleet: Teams, pattern: str = "gpu:*") -> set[str]:
    """Return the slots whose leases are recalled; those on their way from one are listed beside them."""
    listed = fleet.redis.zrange(f"hub:recalled:{pattern}", 0, -1)
    return {slot for slot in listed if fleet.redis.hexists(f"hub:slot:{slot}", "recall_ms")}


def keys_of_teams(fleet: Teams) -> list[str]:
    names = ("team", "recalled")
    return sorted(key for key in fleet.redis.keys("hub:*") if any(name in key.split(":")[1] for name in names))

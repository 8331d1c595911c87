"""The figures of usage in tests: what the store has, and what the history says."""

from __future__ import annotations

from typing import Any

from redis import Redis

from hub.core import Hub
from hub.usage.models import KINDS, Figures

ENDS = ("grant.returned", "grant.lapsed", "grant.ended")
HOUR_MS, DAY_MS = 3_600_000, 86_400_000


async def sums(hub: Hub, days: int = 400) -> dict[str, Figures]:
    """Return the sum of the figures of all names, by kind."""
    found = {}
    for kind in KINDS:
        names, by_day = await hub.usage.read(kind, hub.usage.today() - days, hub.usage.today())
        total = Figures()
        for figures in names.values():
            total = total.plus(figures)
        of_days = Figures()
        for figures in by_day.values():
            of_days = of_days.plus(figures)
        assert of_days == total
        found[kind] = total
    return found


async def names(hub: Hub, kind: Any) -> dict[str, Figures]:
    """Return the figures of the last 400 days by name."""
    return (await hub.usage.read(kind, hub.usage.today() - 400, hub.usage.today()))[0]


def age(redis: Redis, slot: str, ms: int) -> None:
    """Let a lease have begun so much earlier, and its last activity be so much longer ago."""
    began, _, waited = redis.hget(f"hub:slot:{slot}", "began").partition("|")
    redis.hset(f"hub:slot:{slot}", "began", f"{int(began) - ms}" + (f"|{waited}" if waited else ""))


def held_ms(redis: Redis, aged: dict[str, int]) -> tuple[int, int]:
    """Return the number of the leases that the history says have ended, and for how many ms they were held; `aged`:
    ticket -> by how much its lease was aged."""
    begun: dict[str, tuple[int, str]] = {}
    leases = held = 0
    for entry, event in redis.xrange("hub:history"):
        at_ms = int(entry.partition("-")[0])
        if event["event"] in ("grant.lent", "grant.handed"):
            begun[event["slot"]] = at_ms, event["ticket"]
        elif event["event"] == "grant.undone":
            del begun[event["slot"]]
        elif event["event"] in ENDS:
            since_ms, ticket = begun.pop(event["slot"])
            leases, held = leases + 1, held + at_ms - since_ms + aged.get(ticket, 0)
    return leases, held

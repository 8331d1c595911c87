"""Queues of waiters for benchmarks: made by the hub's own commands, without callers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import hiredis
from redis import Redis

from hub.core import Hub
from tests.bench import fleet

POOL = "pay:chromium:eu"  # every label that begins with it may be served from this pool
WAIT_MS = 86_400_000
UNLIMITED = 10**9
TOO_LONG_MS = 10**12  # no borrower is refused for it, but each borrower's wait is estimated before it may enter


@dataclass(frozen=True)
class Place:
    """A ticket and the label that it waits for."""

    label: str
    ticket: str
    priority: int = 0


def label(number: int) -> str:
    """One of many labels that the pool serves."""
    return f"{POOL}:{number:05d}"


class Crowd:
    """Waiters at one hub; they enter, give up and pick up their grants with the commands that a borrow runs."""

    def __init__(self, hub: Hub, attended_by: str) -> None:
        self.hub = hub
        self._attended_by = attended_by
        self._borrow = hub.store.script("capacity/borrow")
        self._undo = hub.store.script("capacity/undo")

    def _named(self, place: Place) -> dict[str, Any]:
        return {
            "label": place.label,
            "ttl_ms": WAIT_MS,
            "idle_ms": 0,
            "run": place.ticket,
            "holder": "",
            "request": place.ticket,
            "attempt": place.ticket,
            "fingerprint": "0" * 16,
            "keep_s": 86_400,
            "keyed": 0,
            "repeated": 0,
            "hub": self._attended_by,
            "wait_ms": WAIT_MS,
            "limit_ms": TOO_LONG_MS,
            "alternatives": "",
            "prefer": "",
            "priority": place.priority,
            "max_label": UNLIMITED,
            "max_run": UNLIMITED,
        }

    async def gather(self, redis: Redis, places: Iterable[Place]) -> None:
        """Let many enter quickly."""
        store = self.hub.store
        command = store.library.commands["capacity/borrow"]

        def packed(place: Place) -> bytes:
            arguments = command.ordered((), self._named(place))
            return bytes(hiredis.pack_command(store.library.call(command.name, store.keys, arguments)))

        await asyncio.to_thread(fleet.send_all, redis, (packed(place) for place in places))

    async def enter(self, place: Place) -> None:
        """Stand in line."""
        word, *_ = await self._borrow(**self._named(place))
        assert word == "waiting", word

    async def cancel(self, place: Place) -> None:
        """Hang up."""
        hub = self._attended_by
        reply = await self._undo(request=place.ticket, attempt=place.ticket, hub=hub, why="gone")
        assert reply == ["left", "dropped"], reply

    async def hand_over(self, slot: str, token: str) -> None:
        """Return a slot for which a ticket waits."""
        word, *_ = await self.hub.leases.give_back(slot, POOL, token)
        assert word == "returned", word

    async def pick_up(self, place: Place) -> tuple[str, str]:
        """Ask again for a ticket that was served; return the slot and the token of its lease."""
        word, slot, token, *_ = await self._borrow(**{**self._named(place), "repeated": 1})
        assert word == "ok", word
        return slot, token

"""One hub's part of the fair queue: its calls that wait, the notifications that wake them, and upkeep once a second."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

from hub.batched import batched
from hub.capacity.agreed import Agreed
from hub.capacity.pools import Pools
from hub.errors import StoreUnavailable, UnknownReply
from hub.observability import metrics
from hub.observability.logs import get_logger
from hub.settings import Settings
from hub.store.rounds import rounds
from hub.store.store import Store

ROUND_S = 1.0  # time between rounds, which find a lost notification or a free slot that no script has handed on
BATCH = 200  # tickets per script: under 0.5 ms
LABELS = 20  # labels whose queues one script reviews
LABELS_MAX = 300  # labels reviewed per round, about 15 ms of Redis; the next round goes on with the others
SERVED_MAX = 32  # most waiters that one script serves from slots that were free already
# Tickets of lost hubs, and leases that those did not deliver, per script: under 4 ms, ten times that for large bundles.
RETIRE_BATCH = 25
_SOURCES = {"set": "run-time", "env": "environment", "served": "served"}
_log = get_logger("hub.queue")


class Queue:
    """One hub's part of the queue: the calls that wait here. Order and limits of the queue are in the store."""

    def __init__(self, store: Store, settings: Settings, pools: Pools, agreed: Agreed, hub_id: str) -> None:
        self.hub_id = hub_id
        self.stopping = False
        self._store = store
        self._pools = pools
        self._agreed = agreed
        self._waiting: dict[str, list[asyncio.Event]] = {}
        self._labels: dict[str, int] = {}  # label -> number of calls here that wait for it; reviewed last: at the end
        self._check = store.script("queue/check")
        self._retire = store.script("queue/retire")
        self._resume = store.script("nodes/resume")
        self._relend = store.script("capacity/relend")
        self._set_cap = store.script("queue/set_cap")
        self._review = store.script("queue/review")
        self._serve_bundles = store.script("capacity/serve_bundles")
        self._patience_ms = int(settings.bundle_patience_s * 1000)
        self._reserve_ms = int(settings.bundle_reserve_s * 1000)
        self._looking: asyncio.Future[None] | None = None

    @contextmanager
    def watch(self, ticket: str, *labels: str) -> Iterator[asyncio.Event]:
        """Yield an event that is set whenever something has happened to the ticket, which waits for these labels; the
        store knows what."""
        woken = asyncio.Event()
        self._waiting.setdefault(ticket, []).append(woken)
        for label in labels:
            self._labels[label] = self._labels.get(label, 0) + 1
        try:
            yield woken
        finally:
            self._waiting[ticket].remove(woken)
            if not self._waiting[ticket]:
                del self._waiting[ticket]
            for label in labels:
                self._labels[label] -= 1
                if not self._labels[label]:
                    del self._labels[label]

    def wake(self, ticket: str) -> None:
        """Wake the calls that wait for a ticket, so that they ask the store about it."""
        for woken in self._waiting.get(ticket, ()):
            woken.set()

    def look_soon(self) -> None:
        """Start a search for pools that other programs made in Redis, rather than wait for the next round.

        Called when a borrow begins to wait.
        """
        if self._looking is None or self._looking.done():
            self._looking = asyncio.ensure_future(self._discover())

    async def _discover(self) -> None:
        with contextlib.suppress(StoreUnavailable):  # the hub clock logs that, and the rounds go on
            await self._pools.discover()

    def stop(self) -> None:
        """End every waiting call with `Stopping`; a ticket with a key keeps its place, so another hub can go on."""
        self.stopping = True
        for ticket in self._waiting:
            self.wake(ticket)

    async def caps(self) -> list[tuple[str, str, int]]:
        """Return every cap as (label, `run-time`, `environment` or `served`, most live leases).

        The label `*` stands for all labels without a cap of their own. A cap that is `served` counts the leases that
        the pool with this label and those below it serve.
        """
        rows = await self._store.read("HGETALL", self._store.keys.caps)
        found = []
        for name, cap in rows.items():
            source, _, label = name.partition(":")
            found.append((label or "*", _SOURCES[source], int(cap)))
        return sorted(found)

    async def served_cap(self, label: str) -> tuple[str, int, int] | None:
        """Return the cap on what is served that keeps the pool of a label from lending: its label, the cap and the live
        leases; None where there is none."""
        for other, source, cap in await self.caps():
            if source == "served" and f"{label}:".startswith(f"{other}:"):
                live = int(await self._store.read("SCARD", self._store.keys.served(other)))
                if live >= cap:
                    return other, cap, live
        return None

    async def set_cap(self, label: str, cap: int | None, *, served: bool = False) -> tuple[int, int]:
        """Set the cap of a label at run time, or clear it with None; `*` means all labels without a cap of their own.

        With `served` it is the cap on what the pool with this label, and those below it, serve. Returns the cap that
        holds now and how many leases it counts. Serves the waiters that a higher cap lets in.
        """
        reply = await self._set_cap(
            label="" if label == "*" else label, cap="" if cap is None else cap, served=int(served)
        )
        match reply:
            case ["ok", holds, live]:
                keys = self._store.keys
                labels = await self._store.read("ZRANGE", keys.turns, 0, -1) if label == "*" else [label]
                await self._serve(labels)
                return holds, live
        raise UnknownReply(self._set_cap.name, reply)

    async def listen(self) -> None:
        """Listen for ever for notifications to this hub's tickets, and wake their calls."""
        while True:
            # The hub clock logs that the store is away; until the subscription is back the rounds find granted tickets.
            with contextlib.suppress(StoreUnavailable):
                async with self._store.notifications.listen(
                    self._store.keys.granted(self.hub_id), keep=True
                ) as subscription:
                    while not subscription.cut:
                        await subscription.wait(ROUND_S)
                        for ticket in subscription.texts():
                            self.wake(ticket)
            await asyncio.sleep(ROUND_S)

    async def go_round(self) -> None:
        """Call `look_after` once a second, for ever."""
        await rounds(ROUND_S, self.look_after, self._not_looked_after)

    def _not_looked_after(self, error: Exception) -> None:
        metrics.sweep_errors.labels("queue").inc()
        _log.error("queue maintenance failed", why=repr(error))

    async def look_after(self) -> None:
        """Do one round of upkeep: read the shared settings, offer the slots of nodes that are heard again, lend on
        revoked slots after their grace, drop the tickets of hubs that are gone, and only then wake tickets whose
        notification was lost and serve waiters from slots that are free, bundles first.
        """
        await self._agreed.round()
        await self._resume()
        while (await self._relend(limit=BATCH // 10))[1] >= BATCH // 10:
            pass
        await self._clear()
        while (await self._serve_bundles(patience_ms=self._patience_ms, reserve_ms=self._reserve_ms))[3]:
            pass
        if self._waiting:
            for batch in batched(list(self._waiting), BATCH):
                await self._look(batch)
            await self._pools.discover()
            labels = list(islice(self._labels, LABELS_MAX))
            for label in labels:
                if label in self._labels:
                    self._labels[label] = self._labels.pop(label)
            await self._serve(labels)

    async def _clear(self) -> None:
        while True:
            _, dropped, undone, more = await self._retire(limit=RETIRE_BATCH)
            metrics.grants_undone.inc(undone)
            if dropped or undone:
                metrics.waiters_dropped.inc(dropped)
                _log.info("waiters of a lost hub removed", dropped=dropped, undone=undone)
            if not more:
                return

    async def _look(self, tickets: Sequence[str]) -> None:
        words: list[Any] = await self._check(hub=self.hub_id, rest=tickets)
        for ticket, word in zip(tickets, words, strict=True):
            if word != "waiting":
                self.wake(ticket)

    async def _serve(self, labels: Sequence[str]) -> None:
        """Serve the waiters of these labels from free slots until no more of them can be served."""
        for batch in batched(labels, LABELS):
            while (await self._review(rest=batch))[1] >= SERVED_MAX:
                pass

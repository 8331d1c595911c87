"""The examination of a store: walk through it, confirm suspicions twice, wait for sweeps to repair, repair, report."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hub.doctor.checks import SLACK_S, Checks, Suspicion, Words
from hub.doctor.repair import Repairer
from hub.doctor.walk import Walk
from hub.settings import Settings, load_settings
from hub.store.store import Store

TICKING_S = 3.0  # a hub ticks twice a second; without a tick for this long no hub runs


@dataclass(frozen=True)
class Finding:
    """A broken invariant: its number (C1 to C12), the subject that breaks it and how, and whether it was repaired."""

    invariant: str
    subject: str
    problem: str
    repaired: bool


async def examine(
    store: Store,
    *,
    repair: bool = False,
    settings: Settings | None = None,
    pause_s: float = 0.5,
    seen: Callable[[int], None] = lambda _: None,
) -> list[Finding]:
    """Return every broken invariant of a store, which may be in use; with `repair` repair those that can be.

    A change under way is not reported: a suspicion becomes a finding when two later checks, `pause_s` apart, confirm
    it. If a hub runs and its sweep would repair the trouble, the check also waits for one sweep. Entries of other
    programs that the hub has not taken in yet are no finding. `settings` are those of the hubs; by default they are
    read from the environment. `seen` is called with the number of keys looked at so far.
    """
    return await _Examination(store, settings or load_settings(), pause_s).run(repair, seen)


class _Examination:
    def __init__(self, store: Store, settings: Settings, pause_s: float) -> None:
        self._store = store
        self._settings = settings
        self._pause_s = pause_s
        self._checks = Checks(store, settings)

    async def run(self, repair: bool, seen: Callable[[int], None]) -> list[Finding]:
        suspicions = await self._expected(await Walk(self._store, self._checks).everything(seen))
        for _ in range(2):
            if suspicions:
                await asyncio.sleep(self._pause_s)
                suspicions = await self._checks.again(suspicions)
        suspicions = await self._after_a_sweep(suspicions)
        left = suspicions
        if repair and suspicions:
            await Repairer(self._store, self._settings).repair(suspicions)
            left = await self._checks.again(suspicions)
        found = [
            Finding(
                trouble.invariant, self._checks.shown(suspicion), trouble.problem, word not in left.get(suspicion, ())
            )
            for suspicion, words in suspicions.items()
            for word in words
            for trouble in (self._checks.trouble(suspicion, word),)
        ]
        return sorted(found, key=lambda each: (int(each.invariant[1:]), each.subject, each.problem))

    async def _after_a_sweep(self, suspicions: Mapping[Suspicion, Words]) -> dict[Suspicion, Words]:
        """Wait for one sweep, if a hub runs; return the suspicions without those that the sweep has repaired."""
        settling = {
            suspicion: some
            for suspicion, words in suspicions.items()
            if (some := frozenset(word for word in words if self._checks.trouble(suspicion, word).settles))
        }
        if not settling or not await self._ticks():
            return dict(suspicions)
        started = time.monotonic()
        interval_s = max(self._settings.node_sweep_interval_s, self._settings.borrow_ttl_sweep_s) + SLACK_S
        while settling and time.monotonic() - started < interval_s:
            await asyncio.sleep(min(self._pause_s, interval_s))
            settling = await self._checks.again(settling)
        rest = await self._checks.again(suspicions)
        kept = {
            suspicion: frozenset(
                word
                for word in words
                if not self._checks.trouble(suspicion, word).settles or word in settling.get(suspicion, ())
            )
            for suspicion, words in rest.items()
        }
        return {suspicion: words for suspicion, words in kept.items() if words}

    async def _expected(self, suspicions: Mapping[Suspicion, Words]) -> dict[Suspicion, Words]:
        """Return the suspicions without the dead nodes and workers that sweeps keep, by switch, brake or setting."""
        keys = self._store.keys
        override, brake, worker_brake = await self._store.read_all(
            [("HGET", keys.store, "expire"), ("HGET", keys.brake, "state"), ("HGET", keys.worker_brake, "state")]
        )
        expires = self._settings.sweeper_expire if override is None else override == "true"
        spared = {"workers"} if worker_brake == "engaged" else set()
        if not expires or brake == "engaged" or self._settings.sweeper_keep_if_available:
            spared.add("nodes")
        kept = {
            suspicion: words - {"dead"} if suspicion.check in spared else words
            for suspicion, words in suspicions.items()
        }
        return {suspicion: words for suspicion, words in kept.items() if words}

    async def _ticks(self) -> bool:
        """Return whether a hub has ticked within `TICKING_S`."""
        ticked_ms = int(await self._store.read("HGET", self._store.keys.store, "tick_ms") or 0)
        seconds, _ = await self._store.read("TIME")
        return int(seconds) - ticked_ms / 1000 < TICKING_S

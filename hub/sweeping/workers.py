"""WorkerSweeperService, which removes silent workers and fails tasks that no worker would ever end."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from hub.errors import UnknownReply
from hub.jobs.workers import Workers
from hub.observability import metrics
from hub.observability.logs import get_logger
from hub.settings import Settings
from hub.store.lenient import read_each
from hub.store.store import Store
from hub.sweeping.brake import Brake, Nominated
from hub.sweeping.steps import Sweep, in_turn

SILENT_MAX = 5_000  # workers removed per pass; the next pass removes the others
BATCH = 50  # tasks failed per script, which takes under 4 ms
BITES_MAX = 200  # calls of the script per pass
LINES_MAX = 100  # removed workers per pass that are logged one by one
_log = get_logger("hub.sweeping")


@dataclass
class WorkerSweep(Sweep):
    """The result of one pass. `scanned` is the number of workers, `expired` how many of them were removed."""

    stale: int = 0
    stuck: int = 0
    ownerless: int = 0
    brake: str = "off"
    held: int = 0

    @property
    def eventful(self) -> bool:
        return bool(self.stale or self.errors or self.stuck or self.ownerless)


class WorkerSweeperService:
    """The sweeper of silent workers. It nominates workers; the script that removes one checks again."""

    def __init__(self, store: Store, settings: Settings, workers: Workers) -> None:
        self._store = store
        self._workers = workers
        self._timeout_ms = int(settings.worker_timeout_s * 1000)
        self._stuck_ms = int(settings.internal_task_timeout_s * 1000)
        self._brake = Brake(store, settings, "workers")
        self._overdue = OverdueWorkers(store)

    async def sweep(self) -> WorkerSweep:
        """Make one pass and return its result."""
        started = time.monotonic()
        done = WorkerSweep()
        await in_turn("worker", done, self._remove_silent, self._fail_stuck, self._fail_ownerless)
        done.elapsed_ms = round((time.monotonic() - started) * 1000, 1)
        return done

    async def _remove_silent(self, done: WorkerSweep) -> None:
        keys = self._store.keys
        clock_ms = int(await self._store.read("HGET", keys.store, "clock_ms") or 0)
        since, half = clock_ms - self._timeout_ms, clock_ms - self._timeout_ms // 2
        done.scanned, done.stale, silent, late, heard = await self._store.read_all(
            [
                ("ZCARD", keys.worker_beats),
                ("ZCOUNT", keys.worker_beats, "-inf", f"({since}"),
                ("ZRANGE", keys.worker_beats, "-inf", f"({since}", "BYSCORE", "LIMIT", 0, SILENT_MAX),
                ("ZRANGE", keys.worker_beats, since, f"({half}", "BYSCORE", "LIMIT", 0, SILENT_MAX),
                ("ZCOUNT", keys.worker_beats, half, "+inf"),
            ]
        )
        metrics.workers_registered.set(done.scanned)
        beat, suspected = await self._that_ever_beat(silent), await self._that_ever_beat(late if silent else [])
        others = len(silent) - len(beat)
        nominated = Nominated(done.scanned, list(beat), done.stale - others, [], 0, len(suspected), heard)
        verdict = await self._brake.judge(nominated, dry_run=False)
        done.brake, done.held = verdict.state, verdict.held
        allowed = set(list(beat)[: verdict.allowed])
        for worker in silent:
            if worker in allowed or worker not in beat:
                await self._remove(worker, done)

    async def _that_ever_beat(self, workers: Sequence[str]) -> dict[str, None]:
        """Return, in order, the workers that beat after they registered; the others do not count for the brake."""
        times = await read_each(
            self._store, [("HMGET", self._store.keys.worker(name), "at", "beat") for name in workers]
        )
        return dict.fromkeys(name for name, said in zip(workers, times, strict=True) if said and said[0] != said[1])

    async def _remove(self, worker: str, done: WorkerSweep) -> None:
        if await self._workers.expire(worker, "silent", self._timeout_ms) == "ok":
            done.expired += 1
            metrics.workers_removed.labels("silent").inc()
            if done.expired <= LINES_MAX:
                _log.warning("worker expired", worker=worker, timeout_s=self._timeout_ms / 1000)

    async def _fail_stuck(self, done: WorkerSweep) -> None:
        done.stuck = await self._overdue.fail("internal", self._stuck_ms)

    async def _fail_ownerless(self, done: WorkerSweep) -> None:
        done.ownerless = await self._overdue.fail("ownerless", self._timeout_ms)


class OverdueWorkers:
    """The script that fails tasks whose time is over, called batch by batch."""

    def __init__(self, store: Store) -> None:
        self._overdue = store.script("tasks/overdue")

    async def fail(self, kind: str, age_ms: int) -> int:
        """Fail the overdue tasks of a kind (internal, ownerless, runtime or silent); return how many were failed."""
        failed = 0
        for _ in range(BITES_MAX):
            match await self._overdue(kind=kind, age_ms=age_ms, limit=BATCH):
                case ["ok", count, more]:
                    failed += count
                case reply:
                    raise UnknownReply(self._overdue.name, reply)
            if not more:
                break
        metrics.tasks_overdue.labels(kind).inc(failed)
        return failed

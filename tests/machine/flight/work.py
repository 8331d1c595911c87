"""Workers that know which tasks they run, and checks of these tasks."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass, field
from typing import Any

from tests.machine.flight.base import Errand
from tests.machine.flight.box import WORKER_S, Box, Call
from tests.machine.flight.bundles import Bundles
from tests.machine.flight.fleet import KEYS

API = "/v1/joblib"
JOB = "@global:analysis:Work"
WORKERS = 6


@dataclass(eq=False)
class Worker:
    """A process that claims and runs."""

    number: int
    id: str
    registered: bool = False
    silent: bool = False  # it has died, or no hub hears it
    heard_ms: int = -1
    heard_s: float = -1.0
    beaten: bool = False  # it has beaten since it registered
    runs: dict[str, str] = field(default_factory=dict)  # task -> the claim it works for
    keys: set[str] = field(default_factory=set)  # of its claims
    unwanted: bool = False  # a caller has asked to remove it, and may have had no answer


class Work(Bundles):
    """Submit, claim, report; and what must hold of it."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.workers = [Worker(n, str(uuid.UUID(int=n + 1))) for n in range(WORKERS)]
        self.told_ends: dict[str, str] = {}  # task -> how it ended, as was answered
        self.submitted: list[str] = []
        self.unwanted: set[str] = set()  # tasks that a caller has asked to cancel
        self.removed: dict[str, float] = {}  # worker -> when its removal was answered
        self.task_lost_s = -1.0  # when the store last lost something of tasks

    def worker(self, which: int) -> Worker:
        return self.workers[which % WORKERS]

    async def employ(self, worker: Worker, box: Box) -> None:
        body = {"category": "analysis", "name": "Work", "schema": {}, "worker_id": worker.id}

        def took(call: Call, box: Box) -> None:
            worker.registered = call.status in (200, 201)
            if worker.registered:
                worker.heard_ms, worker.heard_s, worker.beaten = self.clock_ms(), self.now_s, False

        path = f"{API}/rooms/@global/jobs"
        if not worker.registered:
            made = await self.send(
                Errand("create", "POST", f"{API}/workers", {}, lambda *_: None, repeatable=False), box
            )
            if not (made.heard and made.status == 201):
                return
            worker.id, worker.unwanted = made.answer["id"], False
            body["worker_id"] = worker.id
        await self.send(Errand("employ", "PUT", path, body, took, repeatable=False), box)

    async def worker_beats(self, worker: Worker, box: Box) -> None:
        if not worker.registered:
            await self.employ(worker, box)
            return

        def took(call: Call, box: Box) -> None:
            if call.status == 200:
                worker.heard_ms, worker.heard_s, worker.beaten = self.clock_ms(), self.now_s, True
                for task in call.answer.get("lost", ()):
                    worker.runs.pop(task, None)
            elif call.status == 404:
                self.was_removed(worker)

        path = f"{API}/workers/{worker.id}"
        await self.send(Errand("worker beat", "PATCH", path, self.running(worker), took, repeatable=False), box)

    def running(self, worker: Worker) -> dict[str, Any]:
        """Return what its heartbeat says that it runs, and which of its claims have had no answer."""
        open_claims = [e.key for e in self.errands if e.what == "claim" and not e.answered and e.key]
        mine = [key for key in open_claims if key in worker.keys]
        return {"tasks": [{"id": task, "claim": claim} for task, claim in worker.runs.items() if claim], "claims": mine}

    def was_removed(self, worker: Worker) -> None:
        if (
            not worker.unwanted
            and worker.heard_s >= self.lost_s
            and self.clock_ms() - worker.heard_ms < WORKER_S * 1000
        ):
            self.complain("healthy", f"worker {worker.number} is not on the books, and was heard a moment ago")
        worker.registered = False
        worker.runs.clear()

    async def remove(self, worker: Worker, box: Box) -> None:
        """Let a worker go: its process ends, or an operator says so."""
        if not worker.registered:
            return
        worker.unwanted, gone = True, worker.id

        def took(call: Call, box: Box) -> None:
            if call.status == 204:
                self.removed[gone] = self.now_s
                if worker.id == gone:
                    worker.registered = False
                    worker.runs.clear()

        await self.send(Errand("remove", "DELETE", f"{API}/workers/{gone}", None, took, repeatable=False), box)

    async def sweep(self, box: Box | None) -> None:
        """A pass of all sweepers. One that finds very many silent at once looks again before it removes any."""
        if box is None or box.frozen or not self.stage.up or box.wire.waiting:
            return
        braked = self.redis.exists(KEYS.worker_brake)
        known = [worker for worker in self.workers if worker.beaten and self.beaten_ms(worker) is not None]
        await self.finish(asyncio.ensure_future(box.sweep()), box)
        left = [ms for worker in known if (ms := self.beaten_ms(worker)) is not None]
        gone, before, since_ms = len(known) - len(left), self.redis.zcard(KEYS.worker_beats), self.clock_ms()
        deaf = not any(since_ms - ms < WORKER_S * 500 for ms in left)
        was_away = self.lost_ms > 0 and since_ms - self.lost_ms < WORKER_S * 1000
        if gone >= 3 and gone * 5 > gone + before and not braked and (deaf or was_away):
            self.complain("brake", f"{gone} of {gone + before} workers were removed in the first pass that missed them")

    def beaten_ms(self, worker: Worker) -> int | None:
        found = self.redis.zscore(KEYS.worker_beats, worker.id.replace("-", ""))
        return None if found is None else int(found)

    # -- tasks

    async def submit(self, box: Box, *, attempts: int = 3) -> None:
        body = {"payload": {}, "maxAttempts": attempts, "backoffSeconds": 0}

        def took(call: Call, box: Box) -> None:
            if call.status == 202:
                self.submitted.append(call.answer["id"])

        key = f"s{next(self.numbers)}"
        await self.send(Errand("submit", "POST", f"{API}/rooms/lab/tasks/{JOB}", body, took, key=key), box)

    async def claim(
        self, worker: Worker, box: Box, *, keyed: bool, patience_s: int | None = None, wait_s: int = 0
    ) -> None:
        if not worker.registered:
            return
        body = {"worker_id": worker.id, "limit": 1, "start": True, "waitSeconds": wait_s}

        def took(call: Call, box: Box) -> None:
            if worker.id != body["worker_id"]:
                return  # it was another one then
            if call.status == 200:
                for task in call.answer["tasks"]:
                    if (end := self.told_ends.get(task["id"])) in ("completed", "cancelled"):
                        self.complain("done", f"worker {worker.number} is given {task['id']}, which was {end}")
                    worker.runs[task["id"]] = task.get("claim", "")
                    self.was_claimed(worker, task, call, box, key)
            elif call.status == 404:
                self.was_removed(worker)

        key = f"c{next(self.numbers)}" if keyed else ""
        worker.keys.add(key)
        errand = Errand("claim", "POST", f"{API}/tasks/claim", body, took, key=key, repeatable=keyed)
        errand.patience_s = patience_s
        await self.send(errand, box)

    async def report(self, worker: Worker, which: int, box: Box, *, failed: bool, keyed: bool) -> None:
        if not worker.runs:
            return
        task = sorted(worker.runs)[which % len(worker.runs)]
        claim = worker.runs.pop(task)
        status = "failed" if failed else "completed"
        body = {"status": status, "error": "no luck" if failed else None, **({"claim": claim} if claim else {})}

        def took(call: Call, box: Box) -> None:
            if call.status == 200:
                self.was_reported(task, status)
                self.told_ends[task] = status

        key = f"f{next(self.numbers)}" if keyed else ""
        await self.send(Errand("report", "PATCH", f"{API}/tasks/{task}", body, took, key=key), box)

    def was_claimed(self, worker: Worker, task: dict[str, Any], call: Call, box: Box, key: str) -> None:
        """Note what came with a task."""
        raise NotImplementedError

    def was_reported(self, task: str, status: str) -> None:
        """Note that the end of a task was taken."""
        raise NotImplementedError

    def may_fail(self, task: str) -> bool:
        """Return whether an attempt may have failed although its worker lives."""
        raise NotImplementedError

    async def cancel(self, task: str, box: Box) -> None:
        """Cancel a task, by the user who submitted it."""
        self.unwanted.add(task)

        def took(call: Call, box: Box) -> None:
            if call.status == 200:
                self.told_ends[task] = "cancelled"
                for worker in self.workers:
                    worker.runs.pop(task, None)

        key = f"x{next(self.numbers)}"
        body = {"status": "cancelled"}
        await self.send(Errand("cancel", "PATCH", f"{API}/tasks/{task}", body, took, key=key), box)

    # -- what the store says

    def observe(self) -> None:
        super().observe()
        if not self.settled:
            return
        for worker in self.workers:
            if worker.registered and not worker.silent:
                for task in list(worker.runs):
                    self.look_at_run(worker, task)

        for gone in [gone for gone, at_s in self.removed.items() if at_s > self.lost_s]:
            known = self.redis.exists(KEYS.worker(gone.replace("-", "")))
            if known or self.redis.exists(KEYS.worker_tasks(gone.replace("-", ""))):
                self.complain("removed", f"worker {gone} {'is there' if known else 'holds tasks'}, and was removed")

    def employed(self) -> set[str]:
        """Workers that are on the books, and heard."""
        able = [worker for worker in self.workers if worker.registered and not worker.silent]
        return {worker.id for worker in able if self.redis.exists(KEYS.worker(worker.id.replace("-", "")))}

    def look_at_late_removals(self, late: list[tuple[Errand, Call]], before: set[str]) -> None:
        """No worker was removed for a caller who cannot hear of it."""
        for worker in before - self.employed():
            mine = [(e, c) for e, c in late if e.what == "remove" and e.path == f"{API}/workers/{worker}"]
            if mine and all(self.nobody_hears(e, c) for e, c in mine):
                self.complain("gone", f"worker {worker} was removed by a call that is late")

    def in_the_books(self, worker: Worker) -> set[str]:
        return set(self.redis.smembers(KEYS.worker_tasks(worker.id.replace("-", ""))))

    def look_at_late_claims(self, late: list[tuple[Errand, Call]], before: dict[str, set[str]]) -> None:
        """Nothing was claimed for a worker that cannot hear of it."""
        for worker in self.workers:
            mine = [(e, c) for e, c in late if e.what == "claim" and (e.body or {})["worker_id"] == worker.id]
            new = self.in_the_books(worker) - before[worker.id] - {task.replace("-", "") for task in worker.runs}
            if new and mine and all(self.nobody_hears(e, c) for e, c in mine) and not self.may_hear(worker):
                self.complain("gone", f"worker {worker.number} is given {min(new)}, and cannot hear of it")

    def may_hear(self, worker: Worker) -> bool:
        """Return whether it waits for the answer of a claim, or will ask for it again."""
        mine = [e for e in self.errands if e.what == "claim" and (e.body or {})["worker_id"] == worker.id]
        return any(
            (e.repeatable and not e.answered) or any(not self.nobody_hears(e, c) for c, _ in e.calls) for e in mine
        )

    def look_at_run(self, worker: Worker, task: str) -> None:
        """An attempt ends when its worker says so, or is dead."""
        if self.clock_ms() - worker.heard_ms >= WORKER_S * 1000 or self.task_lost_s >= 0 or worker.unwanted:
            return
        if task in self.unwanted or self.may_fail(task):
            return
        status, by = self.redis.hmget(KEYS.task(task.replace("-", "")), "status", "worker")
        if by != worker.id.replace("-", "") or status not in ("claimed", "running"):
            self.complain("attempt", f"worker {worker.number} runs {task}, which is {status} at {by}")

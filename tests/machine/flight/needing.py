"""Workers whose tasks need slots, and the rules for both."""

from __future__ import annotations

import copy
import json
from typing import Any

from tests.machine.flight.base import Errand
from tests.machine.flight.box import WORKER_S, Box, Call
from tests.machine.flight.fleet import KEYS, OF, SLOTS
from tests.machine.flight.lend import Holder
from tests.machine.flight.work import API, Work, Worker

NAME = "Train"
TRAIN = f"@global:analysis:{NAME}"
NEEDS = [{"label": "gpu:a"}, {"label": "gpu:b"}]
FIRST = 3  # the number of the first worker that runs such tasks as well
BEYOND_S = 30  # for so long leases of tasks outlast the time after which a silent worker is removed
TASKS_MOST = 100  # of a world
KEPT = 0.8  # a heartbeat leaves them at least this part of their length


class Needing(Work):
    """Register and submit tasks that need slots, and claim them; what a claim gives are leases as any other."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.trains: dict[str, bool] = {}  # id of a worker -> whether it is registered for these tasks as well
        self.kept: dict[str, list[Holder]] = {}  # task -> what its last claim was told to hold
        self.by: dict[str, Worker] = {}  # task -> the worker of its last claim
        self.attempts: dict[str, str] = {}  # claim -> worker that was told
        self.to_train: dict[str, float] = {}  # tasks submitted -> when
        self.succeeded: dict[str, float] = {}  # tasks whose success was answered -> when

    # -- steps

    async def do_submit_train(self, a: int, b: int, c: int) -> None:
        body = {"payload": {}, "maxAttempts": 1 + c % 3, "backoffSeconds": 0}

        def took(call: Call, box: Box) -> None:
            if call.status == 202:
                self.submitted.append(call.answer["id"])
                self.to_train[call.answer["id"]] = self.now_s

        key = f"s{next(self.numbers)}"
        path = f"{API}/rooms/lab/tasks/{TRAIN}"
        await self.send(Errand("submit train", "POST", path, body, took, key=key), self.box(b))

    async def do_claim_train(self, a: int, b: int, c: int) -> None:
        worker = self.worker(FIRST + a % FIRST)
        if not worker.registered:
            await self.employ(worker, self.box(b))
        await self.claim(worker, self.box(b), keyed=c % 3 > 0, wait_s=(0, 0, 15)[c // 3 % 3])

    async def employ(self, worker: Worker, box: Box) -> None:
        await super().employ(worker, box)
        if worker.registered and worker.number >= FIRST:
            await self.let_train(worker, box)

    async def let_train(self, worker: Worker, box: Box) -> None:
        name = worker.id
        body = {"category": "analysis", "name": NAME, "schema": {}, "worker_id": name, "needs": NEEDS}

        def took(call: Call, box: Box) -> None:
            self.trains[name] = call.status in (200, 201)

        path = f"{API}/rooms/@global/jobs"
        await self.send(Errand("employ train", "PUT", path, body, took, repeatable=False), box)

    # -- what workers believe

    def of(self, worker: Worker) -> list[Holder]:
        return [each for task, some in self.kept.items() if self.by[task] is worker for each in some if not each.over]

    async def worker_beats(self, worker: Worker, box: Box) -> None:
        if worker.registered and worker.number >= FIRST and not self.trains.get(worker.id):
            await self.let_train(worker, box)
        before, sent_s = worker.heard_s, self.now_s
        await super().worker_beats(worker, box)
        if worker.heard_s != before:
            for holder in self.of(worker):
                if holder.task not in worker.runs:
                    self.was_refused(holder, box, "the task")
                holder.until_s = max(holder.until_s, sent_s + KEPT * (WORKER_S + BEYOND_S))

    def was_claimed(self, worker: Worker, task: dict[str, Any], call: Call, box: Box, key: str) -> None:
        slots, claim, name = task.get("slots", ()), task.get("claim", ""), task["id"]
        if not slots:
            return
        if claim and self.attempts.setdefault(claim, worker.id) != worker.id:
            self.complain("attempt", f"worker {worker.number} and another have {name} under {claim}")
        if len(slots) != len(NEEDS) and not key:
            self.complain("whole", f"{name} came with {len(slots)} of {len(NEEDS)} slots")
        for each in slots:
            given, slot = copy.copy(call), each["browserId"]
            given.answer, given.body = each, {"labelKey": SLOTS[OF[slot]][slot]}
            known = int(each["leaseToken"]) in self.told
            self.was_given(given, box, key or claim)
            if not known:
                holder = self.told[int(each["leaseToken"])]
                holder.task = name
                if name not in self.kept or self.by[name] is not worker or self.kept[name][0].key != holder.key:
                    self.kept[name], self.by[name] = [], worker
                self.kept[name].append(holder)
        self.heard["claimed with slots"] += 1

    async def report(self, worker: Worker, which: int, box: Box, *, failed: bool, keyed: bool) -> None:
        runs = set(worker.runs)
        await super().report(worker, which, box, failed=failed, keyed=keyed)
        for task in runs - set(worker.runs):
            for holder in self.kept.get(task, ()):
                holder.over |= self.by[task] is worker

    def was_reported(self, task: str, status: str) -> None:
        if status == "completed":
            if self.succeeded.get(task, -1.0) > self.lost_s:
                self.complain("once", f"{task} has succeeded twice")
            self.succeeded[task] = self.now_s
            self.heard["trained"] += task in self.to_train

    def was_removed(self, worker: Worker) -> None:
        super().was_removed(worker)
        for holder in self.of(worker):
            holder.over = True

    def pardon(self, holder: Holder) -> None:
        super().pardon(holder)
        if holder.task and not holder.excuse and self.may_have_ended(holder):
            holder.excuse = "its task"

    def may_have_ended(self, holder: Holder) -> bool:
        """Return whether the attempt for which it is held may have ended: then its worker hears of that."""
        worker = self.by[holder.task]
        silent = self.clock_ms() - worker.heard_ms >= WORKER_S * 1000
        others = [other for other in self.kept[holder.task] if other is not holder]
        slotless = len(others) < len(NEEDS) - 1 or any(other.over or self.has_gone(other) for other in others)
        unknown = holder.since_s <= self.lost_s and holder.task not in worker.runs
        return silent or slotless or unknown or worker.unwanted or holder.task in self.unwanted

    def may_fail(self, task: str) -> bool:
        """Return whether an attempt may fail for its slots."""
        for holder in self.kept.get(task, ()):
            self.pardon(holder)
            if holder.excuse or self.redis.hget(f"session:{holder.slot}", "leaseToken") != str(holder.token):
                return True
        return False

    def size_of(self, name: str) -> int:
        return super().size_of(name) if name.endswith(" slots") else len(NEEDS)

    # -- what the store says

    def kept_for(self) -> dict[str, tuple[str, str]]:
        """Return the slots that are lent for tasks: the task, '' while a worker has yet to claim it, and the bundle."""
        found = {}
        for slot in OF:
            holder = json.loads(self.redis.hget(f"session:{slot}", "holder") or "{}")
            if "bundle" in holder and not holder["name"].endswith(" slots"):
                found[slot] = holder.get("task", ""), holder["bundle"]
        return found

    def stays(self) -> str:
        """Return a slot that is lent for a task which does not run."""
        for slot, (task, bundle) in self.kept_for().items():
            status, has = self.redis.hmget(KEYS.task(task), "status", "slots") if task else ("no task", "")
            if status not in ("claimed", "running") or has != bundle:
                return f"{slot} is lent in {bundle} for {task or 'a claim'}, which is {status} with {has}"
        return ""

    def idle_task(self) -> str:
        """Return a claim that waits while there is a task for it, and slots."""
        mine = [call for call in self.waiting_claims() if self.trains.get(call.body["worker_id"])]
        return f"a claim waits beside {found}" if mine and (found := self.ready()) else ""

    def ready(self) -> str:
        """Return a task that waits beside the slots that it needs, if no cap is in the way."""
        task = next(iter(self.redis.zrange(KEYS.job_queue(TRAIN), 0, 0)), "")
        if not task or any(self.is_capped(need["label"]) for need in NEEDS):
            return ""
        free = [self.redis.lrange(f"available:{need['label']}", 0, 0) for need in NEEDS]
        return f"{task} and {free}" if all(free) else ""

    async def run_tasks(self) -> None:
        """A worker claims and finishes what waits; then no task waits beside the slots that it needs."""
        box, worker = self.boxes[0], next((w for w in self.workers[FIRST:] if w.registered), self.workers[FIRST])
        await (self.worker_beats if worker.registered else self.employ)(worker, box)
        for _ in range(TASKS_MOST):
            while worker.runs:
                await self.report(worker, 0, box, failed=False, keyed=True)
            await self.claim(worker, box, keyed=True)
            if not worker.runs:
                break
        if worker.registered and self.trains.get(worker.id) and (found := self.ready()):
            self.complain("idle", f"worker {worker.number} is given nothing beside {found}")
        ids = {each.id.replace("-", "") for each in self.workers if each.registered}
        for task in self.to_train:
            status, by = self.redis.hmget(KEYS.task(task.replace("-", "")), "status", "worker")
            if status in ("claimed", "running") and by not in ids:
                self.complain("task", f"{task} is {status} by a worker that is gone")

"""The calls of a worker: claims, which carry the reports on earlier tasks."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from hub.client.exchange import passing
from hub.client.guard import is_set_within
from hub.client.jobs import calls
from hub.client.jobs.buffers import Outbox, Prefetch
from hub.client.jobs.calls import LEAVE_S, LONGEST_PAUSE_S, ClaimCall, Claimed
from hub.client.jobs.handlers import Task
from hub.client.jobs.runner import TaskRunner
from hub.client.jobs.tasks import Report
from hub.client.jobs.wire import Wire
from hub.errors import HubError, TooLarge, WorkerNotFound
from hub.retries import now_s, pause_s

log = logging.getLogger("hub.client")

# How long the hub may hold a claim while there is nothing to do.
LONGEST_WAIT_S = 20.0
# Seconds that a report waits for a claim that could carry it, before it is sent alone. The wait is longer while claims
# get all the tasks they ask for, because then the next claim is sent soon.
LINGER_S = 0.004
BUSY_LINGER_S = 0.05
# A claim that returns no task, and took longer than this, was held by the hub.
HELD_S = 0.5


@dataclass(eq=False)
class ClaimReporter:
    """The sender of claims and reports of one worker. A call is repeated unchanged until the hub has answered it."""

    wire: Wire
    prefetch: Prefetch
    counts: Counter[str]
    polling_s: float
    on_lost: Callable[[str], Awaitable[object]]
    """Awaited with the id of the worker when the hub no longer has it; sets `worker_id` to that of a new worker."""

    def __post_init__(self) -> None:
        self._outbox = Outbox()
        self._open: dict[str, ClaimCall] = {}
        self._news = asyncio.Event()
        self._away_since_s: float | None = None  # when the unanswered claim was sent
        self._calm = asyncio.Event()  # not set while claims get all the tasks they ask for
        self._calm.set()
        self._holds = False  # whether the hub was seen to hold a claim
        self.worker_id = ""
        self.max_runtime_s: float | None = None
        self.woken = asyncio.Event()

    def say(self, report: Report) -> None:
        """Add a report, which is sent soon: with a claim or alone."""
        self._outbox.add(report)
        self._news.set()

    def unanswered(self) -> list[str]:
        """Return the keys of claims that the hub has not answered. Safe from any thread."""
        return [claim.key for claim in list(self._open.values()) if claim.limit]

    def unreported(self) -> dict[str, str]:
        """Return the tasks whose reports the hub has not taken yet, with their claims. Safe from any thread."""
        reports = [
            *self._outbox.reports(),
            *(report for claim in list(self._open.values()) for report in claim.reports),
        ]
        return {report.task: report.claim for report in reports}

    def forget(self) -> None:
        """Drop all reports and count their tasks as lost, because the hub no longer has the worker."""
        self.counts["lost"] += self._outbox.clear() + sum(len(claim.reports) for claim in self._open.values())
        self._open.clear()

    async def claim_for_ever(self, runner: TaskRunner) -> None:
        """Claim as many tasks as the runner wants, for ever; each claim carries the reports that wait."""
        early = 0
        while True:
            while not (limit := runner.wanted()):
                runner.changed.clear()
                await runner.changed.wait()
            self.woken.clear()
            claim = ClaimCall(self.worker_id, limit, True, self.max_runtime_s, self._outbox.take())
            self._away_since_s = asked_s = now_s()
            try:
                claimed = await self._deliver(claim, LONGEST_WAIT_S)
            finally:
                self._away_since_s = None
            took_s = now_s() - asked_s
            runner.put(Task.of(info) for info in claimed.tasks)
            if len(claimed.tasks) == limit:
                self.prefetch.travelled(took_s)
                self._calm.clear()
            else:
                self._calm.set()
            self._holds = self._holds or (not claimed.tasks and took_s > HELD_S)
            early = early + 1 if not claimed.tasks and took_s < HELD_S else 0
            if early > 1:  # woken in vain, or the hub does not hold claims: pause, so as not to ask all the time
                rest_s = 0.02 if self._holds else min(self.polling_s, 0.05 * 2.0 ** min(early, 10))
                await is_set_within(rest_s, self.woken)

    async def report_for_ever(self) -> None:
        """Send the reports that no claim carries soon enough, for ever."""
        while True:
            await self._news.wait()
            if not self._calm.is_set():
                await is_set_within(BUSY_LINGER_S, self._calm)
            elif self._away_since_s is None or now_s() - self._away_since_s < 2 * LINGER_S:
                await asyncio.sleep(LINGER_S)
            self._news.clear()
            while reports := self._outbox.take():
                await self._deliver(ClaimCall(self.worker_id, limit=0, reports=reports))

    async def close(self, runner: TaskRunner) -> list[ClaimCall]:
        """Repeat unanswered calls and send the last reports, for some seconds; return the calls still unanswered."""
        try:
            async with asyncio.timeout(2 * LEAVE_S):
                for claim in list(self._open.values()):
                    runner.put(Task.of(info) for info in (await self._deliver(claim)).tasks)
                while reports := self._outbox.take():
                    await self._deliver(ClaimCall(self.worker_id, limit=0, reports=reports))
        except TimeoutError:
            pass
        except HubError as error:
            log.warning("the hub does not take a report, and the worker ends without it: %s", error)
        unanswered = list(self._open.values())
        while reports := self._outbox.take():
            unanswered.append(ClaimCall(self.worker_id, limit=0, reports=reports))
        return unanswered

    async def _deliver(self, claim: ClaimCall, wait_s: float = 0.0) -> Claimed:
        self._open[claim.key] = claim
        failures = 0
        while True:
            try:
                claimed = await self.wire.run(calls.claim(claim, lambda: 0.0, wait_s))
                break
            except WorkerNotFound:
                await self.on_lost(claim.worker_id)
                if self._open.pop(claim.key, None) is not None:  # made for a worker that was lost before
                    self.counts["lost"] += len(claim.reports)
                return Claimed([], {})
            except HubError as error:
                if claim.key not in self._open:  # the worker was lost meanwhile
                    return Claimed([], {})
                if isinstance(error, TooLarge) and len(claim.reports) > 1:
                    claim = await self._one_by_one(claim)
                    continue
                shorter = [report.shorter() for report in claim.reports]
                if isinstance(error, TooLarge) and shorter != list(claim.reports):
                    claim = self._open[claim.key] = replace(claim, reports=shorter)
                    continue
                if not self._curable(error):
                    self._open.pop(claim.key)
                    raise
                if not failures:
                    log.warning(
                        "worker %s does not get through to the hub and goes on trying: %s", claim.worker_id, error
                    )
                await asyncio.sleep(min(LONGEST_PAUSE_S, pause_s(failures, error.retry_after_s)))
                failures += 1
        if self._open.pop(claim.key, None) is None:
            return Claimed([], {})
        self._heard(claim, claimed)
        return claimed

    async def _one_by_one(self, claim: ClaimCall) -> ClaimCall:
        """Send each report of a call that was too large alone; return the claim without reports."""
        while claim.reports and claim.key in self._open:
            first, *others = claim.reports
            claim = self._open[claim.key] = replace(claim, reports=others)
            await self._deliver(ClaimCall(claim.worker_id, limit=0, reports=[first]))
        return claim

    def _heard(self, claim: ClaimCall, claimed: Claimed) -> None:
        if missing := [report.task for report in claim.reports if report.task not in claimed.outcomes]:
            raise HubError(f"this hub does not take reports with a claim: it says nothing of {missing}")
        for task_id, outcome in claimed.outcomes.items():
            if outcome != "ok":
                self.counts["refused"] += 1
                log.info("the hub does not take the report on task %s: %s", task_id, outcome)

    def _curable(self, error: HubError) -> bool:
        # While hubs are replaced, a proxy may answer 404; a 404 of the hub itself has another code.
        return passing(error) or error.code == "not-found"

"""The watch for tasks that the hub takes from a worker: cancelled ones, and those that took or were silent too long."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hub.client.exchange import passing
from hub.client.jobs import calls
from hub.client.jobs.calls import ATTEMPT_S, LONGEST_PAUSE_S
from hub.client.jobs.tasks import Held
from hub.client.jobs.wire import Wire
from hub.errors import HubError, WorkerNotFound
from hub.retries import pause_s

log = logging.getLogger("hub.client")

LOOK_S = 0.5  # the hub is asked only while a task has run for longer
UNKNOWN_S = 60.0  # between two questions to a hub that does not know this call
WAIT_S = 20.0  # seconds for which the hub may hold the call


@dataclass(eq=False)
class LostTasks:
    """A loop that asks the hub which tasks this worker has lost, while some task has run for longer than `LOOK_S`."""

    wire: Wire
    worker_id: Callable[[], str]
    runs_longer: Callable[[float], bool]
    """Returns whether a task has been running for more than so many seconds."""
    held: Callable[[], Held]
    """Returns the tasks of the worker."""
    on_lost: Callable[[Mapping[str, str | None]], object]
    """Called with the lost tasks, as task id -> claim."""

    async def hear_for_ever(self) -> None:
        """Ask for ever; only once a minute where the hub, or a proxy before it, does not know the call."""
        known, last_worker_id, failures, logged = 0, "", 0, False
        while True:
            await asyncio.sleep(LOOK_S)
            worker_id = self.worker_id()
            if not worker_id or not self.runs_longer(LOOK_S):
                continue
            if worker_id != last_worker_id:
                known, last_worker_id = 0, worker_id
            try:
                taken = await self.wire.run(calls.taken(worker_id, known, WAIT_S))
                if taken != known:
                    await self._compare(worker_id)
                known, failures = taken, 0
            except WorkerNotFound:  # the heartbeat reports that
                await asyncio.sleep(LOOK_S)
            except HubError as error:
                if passing(error):
                    await asyncio.sleep(min(LONGEST_PAUSE_S, pause_s(failures, error.retry_after_s)))
                    failures += 1
                    continue
                if not logged:
                    log.info("this hub says with heartbeats alone what was taken from a worker: %s", error)
                logged = True
                await asyncio.sleep(UNKNOWN_S)

    async def _compare(self, worker_id: str) -> None:
        if lost := await self.wire.run(calls.beat(worker_id, ATTEMPT_S, self.held())):
            self.on_lost(lost)

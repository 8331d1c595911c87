"""What a worker and the hub keep telling each other: heartbeats, the tasks that are lost, and the end of the worker."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from hub.client.exchange import Left, passing
from hub.client.jobs.calls import ATTEMPT_S, LEAVE_S, LONGEST_PAUSE_S, beat, taken
from hub.client.jobs.tasks import Held
from hub.client.jobs.wire import SyncWire, Wire
from hub.errors import HubError, HubUnavailable, Superseded, WorkerNotFound
from hub.retries import now_s, pause_s

log = logging.getLogger("hub.client")

LOOK_S = 0.5  # the hub is asked for lost tasks only while a task has run for longer
UNKNOWN_S = 60.0  # between two questions to a hub that does not know this call
WAIT_S = 20.0  # seconds for which the hub may hold the call

# HTTP statuses that end a worker. The hub never answers with them for trouble that passes.
FATAL = frozenset({401, 403, 404})


def fatal(error: HubError) -> bool:
    """Return whether an error ends the worker: it is unknown to the hub, refused, or taken over by a later process."""
    return isinstance(error, Superseded) or int(error.facts.get("status") or error.status) in FATAL


class Contact:
    """The time of the last answer of a hub. Contact counts as lost `longest_s` seconds after it (None: never)."""

    def __init__(self, longest_s: float | None) -> None:
        self._longest_s = longest_s
        self._last_s = now_s()

    def heard(self) -> None:
        """Record that a hub has answered at this moment."""
        self._last_s = now_s()

    def lost(self) -> HubUnavailable | None:
        """Return a `HubUnavailable` when contact is lost, else None."""
        if self._longest_s is None or now_s() - self._last_s <= self._longest_s:
            return None
        return HubUnavailable(f"no hub was reached for {self._longest_s:g} s")

    def over(self, error: HubError) -> HubError | None:
        """Return the error that ends the worker after a call that ended with `error`; None when it goes on."""
        return error if fatal(error) else self.lost()


@dataclass
class StopSignals:
    """The events by which the threads of a worker stop and wake each other. A stop is final."""

    contact: Contact
    stop: threading.Event = field(default_factory=threading.Event)
    wake: threading.Event = field(default_factory=threading.Event)
    failure: HubError | None = None
    stopped_s: float = 0.0

    def end(self, error: HubError | None = None) -> None:
        """Stop all threads of the worker; `error`, if given, becomes the `failure`."""
        if not self.stop.is_set():
            self.stopped_s = now_s()
            if error is not None:
                self.failure = error
                log.error("the worker ends: %s", error)
        self.stop.set()
        self.wake.set()

    def over(self, error: HubError) -> bool:
        """End the worker when the hub no longer has it, as `error` says, or contact is lost; return whether so."""
        if (ended := self.contact.over(error)) is not None:
            self.end(ended)
        return ended is not None

    def policy(self, seconds: float) -> Left:
        """Return a function that says how many of `seconds` from now are left; a stop leaves `LEAVE_S` at most."""
        until_s = now_s() + seconds
        return lambda: min(until_s, self.stopped_s + LEAVE_S if self.stop.is_set() else until_s) - now_s()


@dataclass(eq=False)
class Heartbeat:
    """A thread that sends a heartbeat of a worker every `interval_s` seconds, and sooner after a failed one."""

    wire: SyncWire
    interval_s: float
    contact: Contact
    on_end: Callable[[str, HubError], object]
    """Called in the thread with the id of the worker and the error, when the hub no longer has the worker, or contact
    is lost. Then the thread sends nothing until `beat_for` names another worker."""
    held: Callable[[], Held]
    """Returns the tasks that the worker holds, which each heartbeat names."""
    on_lost: Callable[[Mapping[str, str | None]], object]
    """Called in the thread with those that the worker no longer holds, as task id -> claim."""

    def __post_init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        """Make a new thread, not started and without a worker; also in a forked child, which has no threads."""
        self._stop = threading.Event()
        self.thread = threading.Thread(target=self._beat_for_ever, name="heartbeat", daemon=True)
        self._worker_id: str | None = None

    def beat_for(self, worker_id: str) -> None:
        """Send heartbeats of this worker from now on; start the thread if it does not run."""
        self._worker_id = worker_id
        self.contact.heard()
        if not self.thread.is_alive():
            self.thread.start()

    def stop(self) -> None:
        """Send no more heartbeats, without waiting for one that is under way."""
        self._stop.set()

    def close(self, timeout_s: float) -> None:
        """Stop the thread, wait up to `timeout_s` seconds for its end, and close the connections."""
        self.stop()
        if self.thread.is_alive() and self.thread is not threading.current_thread():
            self.thread.join(timeout_s)
        self.wire.close()

    def _beat_for_ever(self) -> None:
        failures, wait_s = 0, self.interval_s
        while not self._stop.wait(wait_s):
            if (worker_id := self._worker_id) is None:
                continue
            error = self._beat(worker_id)
            if error is None:
                if failures:
                    log.info("worker %s reaches the hub again", worker_id)
                self.contact.heard()
                failures, wait_s = 0, self.interval_s
                continue
            if (ended := self.contact.over(error)) is None:
                if not failures:
                    log.warning("worker %s does not get through to the hub and goes on trying: %s", worker_id, error)
                wait_s = min(self.interval_s, pause_s(failures, error.retry_after_s))
                failures += 1
                continue
            failures, wait_s = 0, self.interval_s
            if worker_id == self._worker_id and not self._stop.is_set():
                self._worker_id = None
                self.on_end(worker_id, ended)

    def _beat(self, worker_id: str) -> HubError | None:
        try:
            if lost := self.wire.run(beat(worker_id, min(ATTEMPT_S, max(1.0, self.interval_s)), self.held())):
                self.on_lost(lost)
        except HubError as error:
            return error
        except Exception as error:  # noqa: BLE001 - a bug, but the worker must live on
            return HubUnavailable(f"the beat was not sent: {error!r}")
        return None


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
                number = await self.wire.run(taken(worker_id, known, WAIT_S))
                if number != known:
                    await self._compare(worker_id)
                known, failures = number, 0
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
        if lost := await self.wire.run(beat(worker_id, ATTEMPT_S, self.held())):
            self.on_lost(lost)

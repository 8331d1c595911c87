"""Keeping a worker alive: a thread that does nothing else, over connections that nothing else uses."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from hub.client.jobs.calls import ATTEMPT_S, beat
from hub.client.jobs.tasks import Held
from hub.client.jobs.wire import SyncWire
from hub.errors import HubError, HubUnavailable, Superseded
from hub.retries import now_s, pause_s

log = logging.getLogger("hub.client")

# The answers after which a worker is no worker any more; the hub never gives them for trouble that passes.
FATAL = frozenset({401, 403, 404})


def fatal(error: HubError) -> bool:
    """Return whether the hub does not have this worker, or not for this caller, or as another process."""
    return isinstance(error, Superseded) or int(error.facts.get("status") or error.status) in FATAL


class Contact:
    """The time at which a hub was heard last; contact is lost `longest_s` later (None: never)."""

    def __init__(self, longest_s: float | None) -> None:
        self._longest_s = longest_s
        self._last_s = now_s()

    def heard(self) -> None:
        """Note that a hub has answered."""
        self._last_s = now_s()

    def lost(self) -> HubUnavailable | None:
        """Return the error of a lost contact, None while it is not lost."""
        if self._longest_s is None or now_s() - self._last_s <= self._longest_s:
            return None
        return HubUnavailable(f"no hub was reached for {self._longest_s:g} s")


class Heartbeat:
    """A thread that beats for a worker every `interval_s` seconds, first after one of them; sooner after a failure.

    `on_end(worker_id, error)` is called in the thread when the hub no longer has the worker, or contact is lost. It
    beats no more for that worker; `beat_for` gives it another. `held` says what the worker holds, and
    `on_lost(held, ids)` is called with what of it is not the worker's any more.
    """

    def __init__(
        self,
        wire: SyncWire,
        interval_s: float,
        contact: Contact,
        on_end: Callable[[str, HubError], None],
        held: Callable[[], Held],
        on_lost: Callable[[Held, list[str]], None],
    ) -> None:
        self._held = held
        self._on_lost = on_lost
        self._wire = wire
        self._interval_s = interval_s
        self._contact = contact
        self._on_end = on_end
        self.begin_anew()

    def begin_anew(self) -> None:
        """Beat for no worker yet; with a thread of its own in a forked child."""
        self._stop = threading.Event()
        self.thread = threading.Thread(target=self._beat_for_ever, name="heartbeat", daemon=True)
        self._worker_id: str | None = None

    def beat_for(self, worker_id: str) -> None:
        """Beat for this worker from now on."""
        self._worker_id = worker_id
        self._contact.heard()
        if not self.thread.is_alive():
            self.thread.start()

    def stop(self) -> None:
        """Beat no more; what is under way is not waited for."""
        self._stop.set()

    def close(self, timeout_s: float) -> None:
        """End, and close the connections."""
        self.stop()
        if self.thread.is_alive() and self.thread is not threading.current_thread():
            self.thread.join(timeout_s)
        self._wire.close()

    def _beat_for_ever(self) -> None:
        failures, wait_s = 0, self._interval_s
        while not self._stop.wait(wait_s):
            if (worker_id := self._worker_id) is None:
                continue
            error = self._beat(worker_id)
            if error is None:
                if failures:
                    log.info("worker %s reaches the hub again", worker_id)
                self._contact.heard()
                failures, wait_s = 0, self._interval_s
                continue
            ended = error if fatal(error) else self._contact.lost()
            if ended is None:
                if not failures:
                    log.warning("worker %s does not get through to the hub and goes on trying: %s", worker_id, error)
                wait_s = min(self._interval_s, pause_s(failures, error.retry_after_s))
                failures += 1
                continue
            failures, wait_s = 0, self._interval_s
            if worker_id == self._worker_id and not self._stop.is_set():
                self._worker_id = None
                self._on_end(worker_id, ended)

    def _beat(self, worker_id: str) -> HubError | None:
        try:
            held = self._held()
            if lost := self._wire.run(beat(worker_id, min(ATTEMPT_S, max(1.0, self._interval_s)), held)):
                self._on_lost(held, lost)
        except HubError as error:
            return error
        except Exception as error:  # noqa: BLE001 - a bug, but the worker must live on
            return HubUnavailable(f"the beat was not sent: {error!r}")
        return None

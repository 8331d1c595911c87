"""Watching leases, so that their end by the hub is noticed at once: the hub holds a call until one of them ends."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Sequence

from hub.batched import batched
from hub.client import forks
from hub.client.exchange import RetryPolicy, Send, Steps, exchange, readable
from hub.client.slot import Slot
from hub.client.transport import AsyncTransport, Stopped, SyncTransport
from hub.client.using import Ending
from hub.errors import HubError, MethodNotAllowed, NotFound

LEASES_MAX = 1000  # as many as the hub takes in one call
WAIT_S = 25.0
# A thread that waits for an answer cannot add another slot to its call, so its calls are shorter.
SYNC_WAIT_S = 2.0
PAUSE_S = 0.5
# A pause before each call, so that very short leases cost no call, and leases that begin together cost one.
CALM_S = 0.25
_POLICY = RetryPolicy(trouble_s=0.0, attempt_s=5.0)


def look(slots: Sequence[Slot], wait_s: float) -> Steps[bool]:
    """Wait up to `wait_s` for a lease to end, and mark its slot as lost, or for a slot to be unwell or about to end by
    a rule, and tell it.

    Return False for a hub without this call.
    """
    leases = [{"browserId": slot.id, "leaseToken": slot.token} for slot in slots]
    try:
        heard = {slot.id: slot.unwell for slot in slots if slot.unwell}
        ends = {slot.id: slot.use.name for slot in slots if slot.use.name}
        body = {"leases": leases, "waitSeconds": wait_s, "unwell": heard, "ending": ends}
        answer = yield from exchange(Send("POST", "/leases/watch", body, wait_s=wait_s), _POLICY)
        with readable():
            over = {
                (str(each["browserId"]), str(each["leaseToken"])): str(each.get("because") or each["reason"])
                for each in answer.data["over"]
            }
            unwell = {
                (str(each["browserId"]), str(each["leaseToken"])): str(each["reason"])
                for each in answer.data.get("unwell", ())
            }
            ending = {
                (str(each["browserId"]), str(each["leaseToken"])): (
                    str(each["end"]),
                    Ending(str(each["reason"]), float(each["secondsLeft"])) if each["end"] else None,
                )
                for each in answer.data.get("ending", ())
            }
    except (NotFound, MethodNotAllowed):
        return False
    for slot in slots:
        if (reason := unwell.get((slot.id, slot.token))) is not None:
            slot.heard_unwell(reason or None)
        if (end := ending.get((slot.id, slot.token))) is not None:
            slot.use.heard(slot.id, *end)
        if (why := over.get((slot.id, slot.token))) is not None:
            slot.revoked = slot.revoked or not slot.lost.is_set()
            slot.loss(f"the hub ended the lease ({why})")
    return True


class Watch:
    """The watched leases of one `HubClient`."""

    def __init__(self, http: AsyncTransport) -> None:
        self._http = http
        self.begin_anew()
        forks.note(self)

    def begin_anew(self) -> None:
        """Watch no lease, in a forked child: the leases of its parent are left to the parent."""
        self._slots: dict[Slot, Callable[[], None]] = {}
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def add(self, slot: Slot, when_lost: Callable[[], None]) -> None:
        """Watch the lease of this slot, and call `when_lost` as soon as the hub has ended it."""
        self._slots[slot] = when_lost
        self._changed.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="leases-watched")

    def remove(self, slot: Slot) -> None:
        """Stop watching the lease of this slot."""
        if self._slots.pop(slot, None) is not None and not self._slots:
            self._changed.set()

    async def close(self) -> None:
        """Stop watching all leases, and wait for the end of the call."""
        self._slots.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(CALM_S)
            self._changed.clear()
            if not self._slots:
                return
            parts = batched(list(self._slots), LEASES_MAX)
            asking = [asyncio.ensure_future(self._http.run(look(part, WAIT_S))) for part in parts]
            changing = asyncio.ensure_future(self._changed.wait())
            try:
                await asyncio.wait([*asking, changing], return_when=asyncio.FIRST_COMPLETED)
                for answer in [each for each in asking if each.done()]:
                    if not await _answered(answer):
                        return
            finally:
                for each in (*asking, changing):
                    each.cancel()
                await asyncio.wait([*asking, changing])
            for slot in [each for each in self._slots if each.lost.is_set()]:
                when_lost = self._slots.pop(slot)
                if not slot.returned:
                    when_lost()


async def _answered(asking: asyncio.Future[bool]) -> bool:
    try:
        return asking.result()
    except HubError:
        await asyncio.sleep(PAUSE_S)
        return True


class SyncWatch:
    """The leases of one `SyncHubClient`, watched by a daemon thread while there are any."""

    def __init__(self, http: SyncTransport) -> None:
        self._http = http
        self.begin_anew()
        forks.note(self)

    def begin_anew(self) -> None:
        """Watch no lease, in a forked child: the leases of its parent are left to the parent."""
        self._slots: list[Slot] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, slot: Slot) -> None:
        """Watch the lease of this slot, and mark the slot as lost as soon as the hub has ended it."""
        with self._lock:
            self._slots.append(slot)
            if self._thread is None or not self._thread.is_alive():
                self._stop.clear()
                self._thread = threading.Thread(target=self._run, name="leases-watched", daemon=True)
                self._thread.start()

    def remove(self, slot: Slot) -> None:
        """Stop watching the lease of this slot."""
        with self._lock:
            if slot in self._slots:
                self._slots.remove(slot)

    def close(self) -> None:
        """Stop watching all leases, without waiting for the thread."""
        self._stop.set()

    def _run(self) -> None:
        for turn in itertools.count():
            self._stop.wait(CALM_S)
            with self._lock:
                self._slots = [slot for slot in self._slots if not slot.lost.is_set()]
                parts = list(batched(self._slots, LEASES_MAX))
                if not parts or self._stop.is_set():
                    self._thread = None
                    return
            try:  # one part after the other: together they take no longer than one does
                if not self._http.run(look(parts[turn % len(parts)], SYNC_WAIT_S / len(parts)), self._stop):
                    return
            except Stopped:
                return
            except HubError:
                self._stop.wait(PAUSE_S)

"""The use of a borrowed slot: what its holder notes of it, and the near ends of its lease by the rules of its pool."""

from __future__ import annotations

import inspect
import logging
import math
import threading
from collections.abc import Callable
from typing import NamedTuple

from hub.retries import now_s

log = logging.getLogger("hub.client")
EVERY_S = 10.0  # use is told this often at most, while the idle rule is not known; then four times in its time
LONGEST_S = 60.0


class Ending(NamedTuple):
    """A near end of a lease by the rules of its pool. `reason` is `max-hold`, `idle`, `rule-change` for a rule that was
    changed while the lease lived, or `recall` for a team that lacks its guarantee; `seconds_left` were left when this
    was heard."""

    reason: str
    seconds_left: float


OnEnding = Callable[[Ending | None], object]


class SlotUse:
    """The use of one slot, noted by its program and told to the hub by whatever renews the lease.

    `ending` is a `threading.Event`, set while an end by rule is near; `end` says which, and `name` is the hub's name of
    it. `idle_s` is the idle rule as the hub has said last: seconds, or None.
    """

    def __init__(self) -> None:
        self.ending = threading.Event()
        self.end: Ending | None = None
        self.name = ""
        self.idle_s: float | None = None
        self._on_ending: list[OnEnding] = []
        self._noted, self._pause_s = False, -1.0
        self._told_s, self._every_s = -math.inf, EVERY_S
        self.begin_anew()

    def begin_anew(self) -> None:
        """Make a lock of its own; it lets a callback that is added meanwhile hear each end once."""
        self._news = threading.RLock()

    def note(self, pause_s: float = -1.0) -> None:
        """Note that the slot is in use, or with `pause_s` that it counts as used for so long; 0 ends that."""
        if pause_s >= 0:
            self._pause_s = pause_s
        self._noted = True

    def to_tell(self) -> float | None:
        """Return what is to be told by now: the seconds of a pause, negative for none; None for nothing."""
        if self._pause_s >= 0 or (self._noted and now_s() - self._told_s >= self._every_s):
            return self._pause_s
        return None

    def telling(self) -> None:
        """Note that what was to be told is under way; what is noted from now on is told later."""
        self._noted, self._pause_s, self._told_s = False, -1.0, now_s()

    def told(self, idle_s: float | None) -> None:
        """Note the idle rule, as the hub has answered it."""
        self.idle_s = idle_s
        self._every_s = min(LONGEST_S, idle_s / 4) if idle_s else LONGEST_S

    def on_ending(self, slot_id: str, callback: OnEnding) -> None:
        """Call `callback` with each near end, and with None when it is off; at once where one is near already."""
        if inspect.iscoroutinefunction(callback):
            raise TypeError("on_ending takes a plain function; asyncio.Event().set or create_task leads on from there")
        with self._news:
            self._on_ending.append(callback)
            if self.end is not None:
                _call(slot_id, callback, self.end)

    def heard(self, slot_id: str, name: str, end: Ending | None) -> None:
        """Note a near end, or None: it is off; call the callbacks if that is news."""
        with self._news:
            if name == self.name:
                return
            self.name, self.end = name, end
            if end is None:
                self.ending.clear()
            else:
                self.ending.set()
            for callback in list(self._on_ending):
                _call(slot_id, callback, end)


def _call(slot_id: str, callback: OnEnding, end: Ending | None) -> None:
    try:
        callback(end)
    except Exception as error:  # the watch of the leases must go on
        log.error("slot %s: on_ending raised", slot_id, exc_info=error)

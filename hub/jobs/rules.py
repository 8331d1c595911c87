"""When a schedule is due: every so often, or by a cron expression in a time zone. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import takewhile
from typing import Any
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

MINUTE_US = 60_000_000
# How far back is looked for what was missed, further while there are fewer than wanted: so no look takes long, after
# however long an outage.
_BACK_US = tuple(MINUTE_US * minutes for minutes in (100, 6_000, 144_000, 52_560_000))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TOO_FAR_US = 4_102_444_800_000_000  # 2100: before that, microseconds are exact in every number on the way
# Names that a time zone database answers to and that are no zones: what the machine is set to, a default for rules of
# POSIX, and copies of the zones with and without leap seconds.
_NO_ZONES = ("localtime", "posixrules", "posix/", "right/")


@dataclass(frozen=True)
class Rule:
    """`cron` has five fields, and counts in `zone`; without one it is due `every_ms` after it was due last.

    Where clocks are set forward, what is due at a time that does not exist is due when that is over; where they are set
    back, what is due at a fixed time is due the first time alone, and what is due every so many minutes goes on. Raises
    ValueError with the sentence that helps.
    """

    cron: str = ""
    every_ms: int = 0
    zone: str = "UTC"

    def __post_init__(self) -> None:
        if not self.cron:
            return
        if len(self.cron.split()) != 5:
            raise ValueError(f"{self.cron!r} has not five fields: minute, hour, day of month, month, day of week")
        try:
            CronSim(self.cron, _EPOCH)
        except CronSimError as error:
            raise ValueError(f"{self.cron!r} is no cron expression: {str(error).lower()}") from None
        _ = self._zone

    def check(self) -> None:
        """Raise ValueError for a rule that is not the same on every machine."""
        if self.zone.startswith(_NO_ZONES):
            raise ValueError(f"{self.zone!r} means another zone on each machine: write one such as Europe/Berlin")

    @cached_property
    def _zone(self) -> Any:
        try:
            return UTC if self.zone == "UTC" else ZoneInfo(self.zone)
        except (LookupError, ValueError, OSError):
            raise ValueError(f"{self.zone!r} is no time zone: write one such as Europe/Berlin") from None

    def due(self, after_us: int) -> Iterator[int]:
        """Yield the times at which it is due after a time, one after the other."""
        if self.every_ms:
            while (after_us := after_us + self.every_ms * 1000) < TOO_FAR_US:
                yield after_us
            return
        for moment in CronSim(self.cron, (_EPOCH + timedelta(microseconds=after_us)).astimezone(self._zone)):
            at_us = (moment.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)
            if at_us >= TOO_FAR_US:
                return
            if at_us > after_us:  # of two that fall on one moment there is one
                after_us = at_us
                yield at_us

    def next(self, after_us: int) -> int | None:
        """Return when it is due next after a time; None for never."""
        return next(self.due(after_us), None)

    def missed(self, due_us: int, now_us: int, most: int) -> list[int]:
        """Return the times at which it was due from `due_us` until now, of many the latest `most`."""
        if self.every_ms:
            step_us = self.every_ms * 1000
            last = (now_us - due_us) // step_us
            return [due_us + step_us * number for number in range(max(0, last - most + 1), last + 1)]
        for back_us in _BACK_US:
            since_us = max(due_us - 1, now_us - back_us)
            found = deque(takewhile(lambda at_us: at_us <= now_us, self.due(since_us)), maxlen=most)
            if len(found) == most or since_us == due_us - 1:
                break
        return list(found)


@dataclass(frozen=True)
class Unreadable(Rule):
    """The text of a rule that cannot be read on this machine. Asked when it is due, it raises ValueError with `why`."""

    why: str = ""

    def __post_init__(self) -> None:
        """Accept any text."""

    def due(self, after_us: int) -> Iterator[int]:
        """Yield the times at which it is due after a time, one after the other."""
        raise ValueError(self.why)

    def missed(self, due_us: int, now_us: int, most: int) -> list[int]:
        """Return the times at which it was due from `due_us` until now, of many the latest `most`."""
        raise ValueError(self.why)

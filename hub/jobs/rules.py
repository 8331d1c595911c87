"""The rule of a schedule, from which its times follow: an interval, or a cron expression in a time zone. Pure."""

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
# How far back `missed` looks for times: first 100 minutes, then further while it finds fewer than wanted. So it is
# quick also after a long outage.
_BACK_US = tuple(MINUTE_US * minutes for minutes in (100, 6_000, 144_000, 52_560_000))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TOO_FAR_US = 4_102_444_800_000_000  # the year 2100: earlier microseconds are exact in Lua and Redis scores
# Names in time zone databases that mean another zone on each machine: the zone that the machine is set to, a default
# for POSIX rules, and copies of the zones with and without leap seconds.
_NO_ZONES = ("localtime", "posixrules", "posix/", "right/")


@dataclass(frozen=True)
class Rule:
    """A rule of when a schedule is due: by `cron`, five fields in the time zone `zone`; or, where `cron` is '', each
    `every_ms` after the time before.

    Where clocks are set forward, a time that does not exist is due when the gap ends. Where they are set back, a fixed
    time is due only the first time, and a rule of every so many minutes goes on. Raises ValueError, with a sentence for
    the user, for text that is no cron expression or time zone.
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
        """Raise ValueError for a time zone that is not the same on every machine."""
        if self.zone.startswith(_NO_ZONES):
            raise ValueError(f"{self.zone!r} means another zone on each machine: write one such as Europe/Berlin")

    @cached_property
    def _zone(self) -> Any:
        try:
            return UTC if self.zone == "UTC" else ZoneInfo(self.zone)
        except (LookupError, ValueError, OSError):
            raise ValueError(f"{self.zone!r} is no time zone: write one such as Europe/Berlin") from None

    def due(self, after_us: int) -> Iterator[int]:
        """Yield the times after `after_us` at which the schedule is due, in order."""
        if self.every_ms:
            while (after_us := after_us + self.every_ms * 1000) < TOO_FAR_US:
                yield after_us
            return
        for moment in CronSim(self.cron, (_EPOCH + timedelta(microseconds=after_us)).astimezone(self._zone)):
            at_us = (moment.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)
            if at_us >= TOO_FAR_US:
                return
            if at_us > after_us:  # two times that fall on one moment count once
                after_us = at_us
                yield at_us

    def next(self, after_us: int) -> int | None:
        """Return the first time after `after_us` at which the schedule is due; None for never."""
        return next(self.due(after_us), None)

    def missed(self, due_us: int, now_us: int, most: int) -> list[int]:
        """Return the times from `due_us` to `now_us` at which the schedule was due, at most the last `most` of them."""
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
    """A rule that cannot be read on this machine: `due` and `missed` raise ValueError with `why`."""

    why: str = ""

    def __post_init__(self) -> None:
        """Accept any text as cron expression and time zone."""

    def due(self, after_us: int) -> Iterator[int]:
        """Raise ValueError with the reason why the rule cannot be read."""
        raise ValueError(self.why)

    def missed(self, due_us: int, now_us: int, most: int) -> list[int]:
        """Raise ValueError with the reason why the rule cannot be read."""
        raise ValueError(self.why)

"""The terms of a job: the slots that each of its tasks needs, the limits on its tasks, and who is at a limit."""

from __future__ import annotations

import hashlib
import re
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import orjson

from hub.store.store import Store

RUNNING_MAX = 100_000  # tasks of a group that may run at once
STARTS_MAX = 10_000  # tasks of a group that may start within the time of a rate
SHOWN_MAX = 100  # groups at a limit that are shown
_UNITS_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000}
_RATE = re.compile(r"([0-9]{1,5})/([0-9]{0,5})([smhd])")


def read_rate(text: str) -> tuple[int, int] | None:
    """Return (tasks, ms) of a rate such as `100/m` or `5/30s`; None for a text that is none."""
    found = _RATE.fullmatch(text)
    if found is None:
        return None
    count, per_ms = int(found[1]), int(found[2] or 1) * _UNITS_MS[found[3]]
    return (count, per_ms) if 1 <= count <= STARTS_MAX and 1000 <= per_ms <= _UNITS_MS["d"] else None


@dataclass(frozen=True)
class Limit:
    """A limit on the tasks of a job, for each value that their payloads have at the path `key`, '' for all together:
    how many may run at once, or else how many may start within so many ms."""

    key: str = ""
    running: int = 0
    count: int = 0
    per_ms: int = 0

    @property
    def id(self) -> str:
        """Return the name of the limit in the names of its groups, as `lua/job_limits.lua` makes it."""
        said = f"{self.key}|{self.per_ms or ''}"
        return hashlib.sha1(said.encode(), usedforsecurity=False).hexdigest()[:8]

    @property
    def rate(self) -> str:
        """Return how many may start and in which time, as `read_rate` reads it; '' for a limit on what runs."""
        if not self.per_ms:
            return ""
        unit, ms = next((unit, ms) for unit, ms in _UNITS_MS.items() if self.per_ms % ms == 0 or ms == 1000)
        times = self.per_ms // ms
        return f"{self.count}/{times if times > 1 else ''}{unit}"

    def document(self) -> dict[str, Any]:
        """Return the limit as answers show it."""
        said = {"key": self.key, "running": self.running, "rate": self.rate}
        return {name: value for name, value in said.items() if value}

    def __str__(self) -> str:
        return f"{self.running} running" if self.running else self.rate


class AtLimit(NamedTuple):
    """The tasks that a limit, by its number from 0, counts together for a value: how many run, or have started within
    the time of a rate, how many stand in the queue for a worker, and how many it keeps beside the queue."""

    limit: int
    value: str
    running: int
    queued: int
    waiting: int


class JobTerms(NamedTuple):
    """The terms of a job. `needs` is the text of a `BundleWish`, '' where its tasks need no slots."""

    needs: str = ""
    limits: tuple[Limit, ...] = ()
    at_limit: tuple[AtLimit, ...] = ()

    @classmethod
    def read(cls, needs: str | None, limits: str | None) -> JobTerms:
        """Return the terms in two texts of the store; no limits for a text that no hub wrote."""
        return cls(needs or "", _limits(limits or "[]"))


def limits_text(limits: list[Limit]) -> str:
    """Return limits as JSON, as `lua/job_limits.lua` reads them; '' for none."""
    rows = [{name: value for name, value in asdict(each).items() if value} for each in limits]
    return orjson.dumps(rows).decode() if rows else ""


def _limits(text: str) -> tuple[Limit, ...]:
    try:
        return tuple(Limit(**each) for each in orjson.loads(text))
    except (ValueError, TypeError):
        return ()


def terms_texts(store: Store, full: str) -> tuple[Any, ...]:
    """Return the command that reads the texts for `JobTerms.read`."""
    return "HMGET", store.keys.job(full), "needs", "limits"


async def terms_of(store: Store, full: str) -> JobTerms:
    """Return the terms of a job, with the groups whose tasks wait for room, those with the most first."""
    keys = store.keys
    (needs, limits), groups = await store.read_all(
        [terms_texts(store, full), ("SRANDMEMBER", keys.limited(full), SHOWN_MAX)]
    )
    terms = JobTerms.read(needs, limits)
    found = [each for group in groups if (each := await at_limit(store, full, terms, group))]
    return terms._replace(at_limit=tuple(sorted(found, key=lambda each: (-each.waiting, each.limit, each.value))))


async def at_limit(store: Store, full: str, terms: JobTerms, group: str) -> AtLimit | None:
    """Return how many tasks of a group run and wait; None for a group of limits that the job had before."""
    name, _, value = group.removeprefix(f"{len(full.encode())}\t{full}\t").partition(":")
    number = next((number for number, limit in enumerate(terms.limits) if limit.id == name), None)
    if number is None:
        return None
    keys = store.keys
    running, queued, started, waiting = await store.read_all(
        [
            ("ZCOUNT", keys.limit_taken(group), "-inf", "-inf"),
            ("ZCOUNT", keys.limit_taken(group), "(-inf", "+inf"),
            ("LLEN", keys.limit_starts(group)),
            ("ZCARD", keys.limit_held(group)),
        ]
    )
    return AtLimit(number, value, started if terms.limits[number].per_ms else running, queued, waiting)

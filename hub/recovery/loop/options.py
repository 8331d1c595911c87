"""The options of `process`: their checks, and the values that follow from them."""

from __future__ import annotations

import inspect
import math
import os
from asyncio import Event
from contextlib import suppress
from typing import Any, Literal

from hub.recovery.loop.sessions import GetSession
from hub.recovery.models import SqlSource
from hub.recovery.outcomes import Outcomes

MOST = 10_000
CONCURRENCY = 10
BEATS = 4  # heartbeats within a threshold, so that three may fail


def check(source: Any, handler: Any, get_session: Any, stop: Any, park: Any, poll_s: Any, **counts: Any) -> None:
    """Check the options of `process`; raise `TypeError` or `ValueError` with a sentence for a faulty one."""
    if not isinstance(source, SqlSource):
        raise TypeError(f"process works on records of an SqlSource, not of a {type(source).__name__}")
    if not callable(handler):
        raise TypeError("handler is a function of a record and a session")
    with suppress(ValueError):  # the signature of some callables is unknown
        try:
            inspect.signature(handler).bind(None, None)
        except TypeError as error:
            raise TypeError(f"handler is a function of a record and a session: {error}") from None
    if get_session is not None and not callable(get_session):
        raise TypeError("get_session is a function that returns a session")
    if stop is not None and not isinstance(stop, Event):
        raise TypeError("stop is an asyncio.Event")
    if park is not None and park is not False and not isinstance(park, str):
        raise TypeError("park is the URL of a Redis, or False")
    for name, value in counts.items():
        if value is None and name == "concurrency":
            continue
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"{name} is a whole number, and it is {value!r}")
        if not 1 <= value <= MOST:
            raise ValueError(f"{name} is from 1 to {MOST}, and it is {value}")
    if not _is_number(poll_s) or not 0 < poll_s < math.inf:
        raise ValueError(f"poll_s is a number of seconds above 0, and it is {poll_s!r}")


def places(source: SqlSource, get_session: GetSession | None, batch: int, concurrency: int | None) -> int:
    """Return how many handlers may run at once; by default 1 for SQLite, which has one writer at a time."""
    if concurrency is None:
        concurrency = 1 if get_session is None and source.url.startswith("sqlite") else CONCURRENCY
    return min(batch, concurrency)


def beat_s(source: SqlSource, heartbeat: bool | float) -> float | None:
    """Return the seconds between two heartbeats, None for no heartbeats; raises `ValueError` for a faulty option."""
    if heartbeat is False:
        return None
    if heartbeat is True:
        return source.threshold_s / BEATS
    if not _is_number(heartbeat) or not 0 < heartbeat <= source.threshold_s / 2:
        most = f"at most half the threshold of {source.threshold_s:g} s"
        raise ValueError(f"heartbeat is True, False, or a number of seconds above 0 and {most}")
    return float(heartbeat)


def outcomes(source: SqlSource, park: str | Literal[False] | None) -> Outcomes | None:
    """Return the parked outcomes of the source in the Redis of `park` or the environment, None without one."""
    url = park if park is not None else os.environ.get("HUB_REDIS_URL") or os.environ.get("REDIS_URL")
    return Outcomes.at(url, os.environ.get("HUB_KEY_PREFIX", ""), source.name) if url else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)

"""The number of requests and their durations, by route. They are noted here at next to no cost, and added to the
metrics once a second and before the metrics are read: updating a metric costs more than some requests do."""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_left

from starlette.types import Scope

from hub.observability import metrics
from hub.observability.tracing import tracing

ROUTE = "hub.route"  # in the scope of a request: its path template, where the router was not asked
NO_ROUTE = "none"
GONE = 499  # the caller hung up before an answer began
FLUSH_S = 1.0
_BOUNDS = metrics.HTTP_BUCKETS
_CONVERTOR = re.compile(r":\w+(?=\})")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class RequestCount:
    """The requests of one route, method and status code since the last flush."""

    __slots__ = ("buckets", "timed", "total_s")

    def __init__(self, timed: bool) -> None:
        self.timed = timed  # False for streams: they last as long as the caller listens
        self.buckets = [0] * (len(_BOUNDS) + 1)
        self.total_s = 0.0

    def add(self, seconds: float) -> None:
        """Count one more request, which took `seconds`."""
        self.total_s += seconds
        self.buckets[bisect_left(_BOUNDS, seconds)] += 1


_rows: dict[tuple[str, str, int], RequestCount] = {}


def row(route: str, method: str, code: int, timed: bool = True) -> RequestCount:
    """Return the counter of this route, method and status code; the same object for as long as the process lives."""
    return _rows.setdefault((route, method, code), RequestCount(timed))


def note(scope: Scope, code: int, seconds: float, *, timed: bool = True) -> None:
    """Count a request that is over. Only templates of routes become labels, never paths or methods that callers make
    up."""
    route: str = scope.get(ROUTE) or str(getattr(scope.get("route"), "path", NO_ROUTE))
    method: str = scope["method"] if scope["method"] in _METHODS else "other"
    key = (route, method, code or GONE)
    if tracing.on:
        tracing.answered(method, _CONVERTOR.sub("", route), code or GONE)
    found = _rows.get(key)
    (found if found is not None else row(*key, timed)).add(seconds)


def flush() -> None:
    """Add the counts since the last flush to the metrics."""
    for (route, method, code), found in list(_rows.items()):
        some = sum(found.buckets)
        if some:
            shown = _CONVERTOR.sub("", route)
            metrics.http_requests.labels(shown, method, str(code)).inc(some)
            if found.timed:
                metrics.http_seconds.labels(shown).add(found.buckets, found.total_s)
            found.buckets[:], found.total_s = [0] * len(found.buckets), 0.0


async def keep_flushing() -> None:
    """Flush every second until cancelled, so that other processes of this hub can show these numbers."""
    try:
        while True:
            await asyncio.sleep(FLUSH_S)
            flush()
    finally:
        flush()

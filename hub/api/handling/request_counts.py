"""How many requests there were and how long they took, by route: noted here at next to no cost, and told to the metrics
once a second and when they are asked for, because a metric costs more than some of the requests do."""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_left

from starlette.types import Scope

from hub.observability import metrics
from hub.observability.tracing import tracing

ROUTE = "hub.route"  # in a scope: the template of what was found past the router
NO_ROUTE = "none"
GONE = 499  # the caller hung up before an answer began
FLUSH_S = 1.0
_BOUNDS = metrics.HTTP_BUCKETS
_CONVERTOR = re.compile(r":\w+(?=\})")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class RequestCount:
    """The requests of one route, method and code since the last flush."""

    __slots__ = ("buckets", "timed", "total_s")

    def __init__(self, timed: bool) -> None:
        self.timed = timed  # what has no end lasts as long as somebody listens
        self.buckets = [0] * (len(_BOUNDS) + 1)
        self.total_s = 0.0

    def add(self, seconds: float) -> None:
        """One more request that took so long."""
        self.total_s += seconds
        self.buckets[bisect_left(_BOUNDS, seconds)] += 1


_rows: dict[tuple[str, str, int], RequestCount] = {}


def row(route: str, method: str, code: int, timed: bool = True) -> RequestCount:
    """The row of these, which stays the same one for as long as the process lives."""
    return _rows.setdefault((route, method, code), RequestCount(timed))


def note(scope: Scope, code: int, seconds: float, *, timed: bool = True) -> None:
    """A request is over. What callers choose - paths, methods - makes no series: templates do."""
    route: str = scope.get(ROUTE) or str(getattr(scope.get("route"), "path", NO_ROUTE))
    method: str = scope["method"] if scope["method"] in _METHODS else "other"
    key = (route, method, code or GONE)
    if tracing.on:
        tracing.answered(method, _CONVERTOR.sub("", route), code or GONE)
    found = _rows.get(key)
    (found if found is not None else row(*key, timed)).add(seconds)


def flush() -> None:
    """Tell the metrics."""
    for (route, method, code), found in list(_rows.items()):
        some = sum(found.buckets)
        if some:
            shown = _CONVERTOR.sub("", route)
            metrics.http_requests.labels(shown, method, str(code)).inc(some)
            if found.timed:
                metrics.http_seconds.labels(shown).add(found.buckets, found.total_s)
            found.buckets[:], found.total_s = [0] * len(found.buckets), 0.0


async def keep_flushing() -> None:
    """Until cancelled: several processes of a hub show one another's numbers."""
    try:
        while True:
            await asyncio.sleep(FLUSH_S)
            flush()
    finally:
        flush()

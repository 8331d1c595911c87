"""The endpoints whose rate matters: a table, by which they are found past the router, which costs more than they do.

Paths are written as the router has them.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import compile_path
from starlette.types import Scope

from hub.api.capacity import leases, nodes
from hub.api.console import overview, people
from hub.api.jobs import tasks, workers
from hub.api.operators import events
from hub.api.paths import EVENTS, PAGE_EVENTS, PREFIX, read_id

Endpoint = Callable[[Request], Awaitable[Response]]


class Hot(NamedTuple):
    """An endpoint, and how it is asked for."""

    method: str
    path: str
    endpoint: Endpoint


HEARTBEAT = Hot(
    "POST", "/node/heartbeat", nodes.heartbeat
)  # `hub.api.http.beats` answers most of these before they are here
HOT = (
    HEARTBEAT,
    Hot("POST", "/node/heartbeats", nodes.heartbeats),
    Hot("POST", "/session/borrow", leases.borrow),
    Hot("POST", "/session/return", leases.give_back),
    Hot("POST", "/session/renew", leases.renew),
    Hot("POST", f"{PREFIX}/tasks/claim", tasks.claim),
    Hot("POST", f"{PREFIX}/rooms/{{room_id}}/tasks/{{job_name:full}}", tasks.submit),
    Hot("PATCH", f"{PREFIX}/workers/{{worker_id}}", workers.beat),
    Hot("PATCH", f"{PREFIX}/tasks/{{task_id}}", tasks.move),
    Hot("GET", "/console/overview", overview.overview),
    Hot("GET", "/console/me", people.me),
    Hot("GET", EVENTS, events.events),  # what it sends passes by the router, each piece of it
    Hot("GET", PAGE_EVENTS, overview.follow),
)
TEMPLATES = {hot.endpoint: hot.path for hot in HOT}
_PLAIN = {(hot.method, hot.path): hot.endpoint for hot in HOT if "{" not in hot.path}


class _Named(NamedTuple):
    """A path with parameters: what it begins with, and the name of the only one where that is the rest of it."""

    start: str
    only: str
    pattern: re.Pattern[str]
    endpoint: Endpoint


def _named(hot: Hot) -> _Named:
    start, _, rest = hot.path.partition("{")
    return _Named(start, rest[:-1] if rest[:-1].isidentifier() else "", compile_path(hot.path)[0], hot.endpoint)


_NAMED = {method: [_named(hot) for hot in HOT if "{" in hot.path and hot.method == method] for method, _, _ in HOT}


def find(scope: Scope) -> Endpoint | None:
    """The endpoint, with the parameters of its path put where it looks for them; None for all that are not hot."""
    method, path = scope["method"], scope["path"]
    if (plain := _PLAIN.get((method, path))) is not None:
        return plain
    for start, only, pattern, endpoint in _NAMED.get(method, ()):
        if path.startswith(start):
            if only:
                rest = path[len(start) :]
                if rest and "/" not in rest:
                    scope["path_params"] = {only: read_id(rest)}
                    return endpoint
            elif found := pattern.match(path):
                scope["path_params"] = {name: read_id(each) for name, each in found.groupdict().items()}
                return endpoint
    return None

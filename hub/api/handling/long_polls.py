"""Long polls: their waiting time is added to the time limit of the request, and they end when the caller is gone."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import TypeVar

from starlette.requests import Request

from hub.api.handling.context import CALLER, is_gone, remote_ip, serving
from hub.api.handling.deadlines import Deadline
from hub.api.handling.wrong_secrets import neighbourhood

TIME = "hub.time"  # in the scope of a request: its `Deadline`
PIECE_S = 5.0  # the longest time until a poll notices that its caller is gone or that the hub stops

T = TypeVar("T")


def more_time(request: Request, seconds: float) -> None:
    """Extend the time limit of a request by `seconds`; does nothing for a request without one."""
    limit: Deadline | None = request.scope.get(TIME)
    if limit is not None:
        limit.extend(seconds)


async def wait(request: Request, seconds: float, look: Callable[[float], Awaitable[T]], over: Callable[[T], bool]) -> T:
    """Call `look(seconds)` again and again until `over` accepts the result; return the last result.

    The wait ends after `seconds` at the latest, and earlier when the caller hangs up or the hub stops. Raises
    `Unavailable` when too many polls wait in this process already.
    """
    if serving(request).stopping:
        seconds = 0.0
    more_time(request, seconds)
    until = time.monotonic() + seconds
    with serving(request).polls.place(_who(request)) if seconds > 0 else nullcontext():
        while True:
            left_s = until - time.monotonic()
            found = await look(max(0.0, min(left_s, PIECE_S)))
            if over(found) or left_s <= PIECE_S or serving(request).stopping or await is_gone(request):
                return found


def _who(request: Request) -> str:
    """Return a name for the caller that waits: that of the caller that was let in, or a stranger's address. The headers
    do not say it, since a caller may add to them what it likes."""
    return str(request.scope[CALLER].key) or neighbourhood(remote_ip(request))

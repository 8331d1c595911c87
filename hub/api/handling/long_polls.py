"""Long polls: they take their time beside that of the request, and end when their caller is gone."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from hashlib import sha256
from typing import TypeVar

from starlette.requests import Request

from hub.api.handling.context import is_gone, remote_ip, serving
from hub.api.handling.deadlines import Deadline
from hub.api.handling.wrong_secrets import neighbourhood
from hub.tokens.secrets import HEADER

TIME = "hub.time"  # in the scope of a request: the `Deadline` it is served under
PIECE_S = 5.0  # how late it is noticed that the caller has hung up, or that the hub stops

T = TypeVar("T")


def more_time(request: Request, seconds: float) -> None:
    """Let the request take so much longer than others."""
    limit: Deadline | None = request.scope.get(TIME)
    if limit is not None:
        limit.extend(seconds)


async def wait(request: Request, seconds: float, look: Callable[[float], Awaitable[T]], over: Callable[[T], bool]) -> T:
    """What `look(seconds)` finds, as soon as it is `over`, or else at the end.

    The end is after so many seconds, and earlier when the caller hangs up or the hub stops. Raises `Unavailable` where
    too many wait already.
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
    """Name who waits: the credential that was shown, as a digest, or the address."""
    shown = "\n".join([request.headers.get(HEADER, ""), *request.headers.getlist("authorization")]).strip()
    return sha256(shown.encode()).hexdigest() if shown else neighbourhood(remote_ip(request))

"""The parts that every endpoint needs: the hub, its guards, and a check whether the caller is still connected."""

from __future__ import annotations

import asyncio
import os

from starlette.requests import Request
from starlette.types import Scope

from hub.api.handling.browsers import Gate
from hub.api.handling.large_bodies import LargeBodies
from hub.api.handling.proxies import FORWARDED, Proxies
from hub.api.handling.shares import LongPolls
from hub.api.handling.stalls import READ_S, Stalls
from hub.api.handling.wrong_secrets import WrongSecrets
from hub.core import Hub
from hub.errors import CallerGone, Stopping
from hub.history.live import Live
from hub.tokens.file import TokensFile
from hub.tokens.holders import Holders
from hub.tokens.oidc import oidc_users
from hub.tokens.secrets import Secrets
from hub.wire import time_at

CYCLE = "hub.cycle"  # in the scope of a request: uvicorn's `RequestResponseCycle`, where the server is uvicorn

CALLER = "hub.caller"  # in the scope of a request that was let in: its `hub.api.callers.caller.Caller`

SERVING = "hub.serving"  # in the scope of a request: the `Serving` of its application, when it has been found


class Serving:
    """The hub and the guards of an application, kept in `app.state.serving`."""

    def __init__(self, hub: Hub, secrets: Secrets, tokens_file: TokensFile, gate: Gate) -> None:
        self.hub = hub
        self.gate = gate
        self.large_bodies = LargeBodies(hub.settings)
        self.secrets = secrets
        self.holders = Holders(hub.tokens, tokens_file)
        self.oidc = oidc_users(hub.settings, hub.store.wall_s)
        if self.oidc is not None:
            secrets.is_login = self.oidc.is_login
        self.live = Live(hub.store)
        self.stalls = Stalls()
        self.wrong_secrets = WrongSecrets()
        self.polls = LongPolls()
        # FORWARDED_ALLOW_IPS, a variable of uvicorn, lists the proxies that may say which address called.
        self.proxies = Proxies(os.environ.get(FORWARDED, "127.0.0.1"))
        self.stopping = False

    def stop(self) -> None:
        """Refuse new borrows, answer the calls that wait in the queue, and end the streams of events; all other calls
        are still served."""
        self.stopping = True
        self.live.stop()
        self.hub.queue.stop()

    async def close(self) -> None:
        """Stop, and wait until no stream of events reads the store any more."""
        self.stop()
        if self.oidc is not None:
            await self.oidc.keys.close()
        await self.live.close()


def serving(request: Request) -> Serving:
    """Return the application's `Serving`; raises `Stopping` before the store is open."""
    found: Serving | None = request.scope.get(SERVING) or getattr(request.app.state, "serving", None)
    if found is None:
        raise Stopping("The hub is starting", retry_after_s=1)
    return found


_GONE = "The caller hung up before anything was done"


async def is_gone(request: Request) -> bool:
    """Return whether the caller has closed its connection. uvicorn's record is read where there is one: asking by an
    ASGI message costs a fifth of a claim."""
    gone: bool | None = getattr(request.scope.get(CYCLE), "disconnected", None)
    return await request.is_disconnected() if gone is None else gone


def hang_up(scope: Scope) -> None:
    """Cut the connection of a request, and drop the bytes of the answer that are not sent yet."""
    if (transport := getattr(scope.get(CYCLE), "transport", None)) is not None:
        transport.abort()


async def check_listening(request: Request) -> None:
    """Raise `CallerGone` when the caller has closed its connection: it may have asked another hub since. Call it after
    the body has been read."""
    if serving(request).stalls.is_over_just_now():
        await asyncio.sleep(READ_S)
    if await is_gone(request):
        raise CallerGone(_GONE)


async def check_caller(scope: Scope, found: Serving) -> None:
    """Raise `CallerGone` when the caller has closed its connection before the request is looked at, so that nothing is
    changed for it."""
    if found.stalls.is_over_just_now():
        await asyncio.sleep(READ_S)
    if getattr(scope[CYCLE], "disconnected", False):
        raise CallerGone(_GONE)


def in_ms(hub: Hub, left_ms: float) -> str:
    """Return the time that is `left_ms` milliseconds from now on the clock of Redis, as text for the wire. The store
    itself decides by the hub clock."""
    return time_at(hub.store.wall_s() + left_ms / 1000)


def in_seconds(left_ms: int | None) -> float | None:
    """Return a time that is left in seconds, given in milliseconds; None stays None."""
    return None if left_ms is None else left_ms / 1000


def remote_ip(request: Request) -> str | None:
    """Return the address that a call came from, for the audit log; None when it is not known."""
    return serving(request).proxies.caller(request.scope)

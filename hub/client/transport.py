"""Two thin drivers that play the steps of `exchange` over HTTP: one for asyncio, one for threads."""

from __future__ import annotations

import asyncio
import math
import os
import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import httpx

from hub.client import forks
from hub.client.exchange import Outcome, Pause, Send, Steps, T, Unreachable, heard, words_of
from hub.client.trust import tls_context, warn_of_plain_text
from hub.errors import HubError
from hub.outgoing import options_for
from hub.retries import now_s

DEFAULT_URL = "http://127.0.0.1:8080"
# Idle connections are kept for less than the 30 s of the hub, so that the hub does not close one when a request starts.
# Calls that wait, such as a borrow in the queue, have connections of their own, so that no renewal waits for one.
_LIMITS = httpx.Limits(max_connections=1000, max_keepalive_connections=100, keepalive_expiry=20.0)
Address = tuple[str, str]
C = TypeVar("C", httpx.Client, httpx.AsyncClient)
# Errors after which nothing of the request has left this machine.
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


class Stopped(Exception):
    """The end of `SyncTransport.run` after its `stop` event was set before the steps were done."""


class Credentials:
    """What requests show to the hub, to say who sends them."""

    noun = "secret"
    key: str | None = None
    """A text that clients with the same credentials have in common; None when they share nothing."""

    def __init__(self, variable: str) -> None:
        self._variable = variable  # the environment variable that holds them; empty when the program gave them

    def headers(self) -> dict[str, str]:
        """Return the headers for the next request; may raise anything, which counts as a hub that is away."""
        return {}

    def shown(self) -> str:
        """Return words on the environment variable, to add to a refusal; empty when the program gave the secret."""
        if not self._variable:
            return ""
        if os.environ.get(self._variable):
            return f"the {self.noun} shown was that of {self._variable}"
        return f"no {self.noun} was shown: {self._variable} is not set"


class Secret(Credentials):
    """A shared secret or a token; None stands for that of the first environment variable that is set now; a callable
    is called for each request."""

    def __init__(self, secret: str | Callable[[], str] | None, *variables: str) -> None:
        variable = next((each for each in variables if os.environ.get(each)), variables[0] if variables else "")
        super().__init__(variable if secret is None else "")
        self._called = secret if callable(secret) else None
        given = secret if isinstance(secret, str) else os.environ.get(variable, "") if secret is None else None
        self.key = given

    def headers(self) -> dict[str, str]:
        """Return the header with the secret; none without a secret."""
        secret = self._called() if self._called is not None else self.key
        return {"x-hub-secret": secret} if secret else {}


def _options(url: str | None, transport: object) -> dict[str, Any]:
    base_url = (url or os.environ.get("HUB_URL") or DEFAULT_URL).rstrip("/")
    if transport is None:
        warn_of_plain_text(base_url)
    over_tls = not base_url.lower().startswith("http:")
    given = {
        "base_url": base_url,
        "verify": tls_context() if over_tls and transport is None else None,
        "limits": _LIMITS,
        "transport": transport,
    }
    return options_for(base_url, given)


class _Remaining(dict[str, float]):
    """The time limits that httpx reads for each phase of a request: the time left of `timeout_s` for all phases.

    The phase "read" gets the `wait_s` of the request in addition.
    """

    def __init__(self, send: Send) -> None:
        super().__init__(dict.fromkeys(("pool", "connect", "write", "read"), send.timeout_s))
        self._wait_s = send.wait_s
        self._until_s = now_s() + send.timeout_s

    def __getitem__(self, phase: str) -> float:
        return max(0.001, self._until_s - now_s() + (self._wait_s if phase == "read" else 0.0))

    def get(self, phase: str, default: Any = None) -> Any:
        return self[phase]


def _unreachable(client: httpx.Client | httpx.AsyncClient, error: Exception) -> Unreachable:
    return Unreachable(f"no answer from {client.base_url}: {words_of(error)}", not isinstance(error, _UNSENT))


def _next(steps: Steps[T], outcome: Outcome, broken: BaseException | None) -> Send | Pause:
    return steps.send(outcome) if broken is None else steps.throw(broken)


class _Transport(Generic[C]):
    """The base of both drivers, with the connections: opened when they are needed, and anew in a forked child."""

    _kind: type[C]

    def __init__(self, url: str | C | None, credentials: Credentials, transport: object = None) -> None:
        self.credentials = credentials
        self.given = transport is not None
        self._clients: tuple[C, C] | None = None
        self._lent = isinstance(url, httpx.Client | httpx.AsyncClient)
        if isinstance(url, httpx.Client | httpx.AsyncClient):
            self.given, self._clients = True, (url, url)
        else:
            self._options = _options(url, transport)
        forks.note(self)

    def begin_anew(self) -> None:
        """Make new connections in a forked child, unless the transport was given: that is left to its owner."""
        if self._clients is not None and not self.given:
            forks.leave_to_parent(self._clients)
            self._clients = None

    def _opened(self) -> tuple[C, C]:
        """Return the HTTP client for ordinary calls, and the one for calls that the hub may hold."""
        if self._clients is None:
            self._clients = self._kind(**self._options), self._kind(**self._options)
        return self._clients

    @property
    def url(self) -> str:
        """Return the URL of the hub."""
        return str(self._opened()[0].base_url).rstrip("/")

    @property
    def address(self) -> Address | None:
        """Return the URL of the hub and the secret. Clients with the same pair share a backlog; None: no sharing."""
        return None if self.credentials.key is None else (self.url, self.credentials.key)

    def twin(self) -> SyncTransport:
        """Return new connections to the same hub, for a thread that may outlive this client."""
        return SyncTransport(self.url, self.credentials)

    def _request(self, send: Send) -> tuple[C, httpx.Request | Unreachable]:
        """Return the HTTP client for a step and the request, or `Unreachable` when the credentials cannot be had.

        A request that changes something names the wait of its caller, after which the hub does not carry it out.
        """
        client = self._opened()[1 if send.wait_s else 0]
        wait = {} if send.method == "GET" else {"prefer": f"wait={math.ceil(send.timeout_s + send.wait_s)}"}
        try:
            credentials = self.credentials.headers()
        except Exception as error:  # noqa: BLE001 - a callable of the program may fail in any way
            return client, Unreachable(f"there is no token: {error!r}", sent=False)
        return client, client.build_request(
            send.method,
            send.path,
            json=send.body,
            content=send.content,
            params=dict(send.query) or None,
            headers={**wait, **credentials, **send.headers},
            timeout=httpx.Timeout(send.timeout_s, read=send.timeout_s + send.wait_s),
        )


class AsyncTransport(_Transport[httpx.AsyncClient]):
    """A driver that plays steps on the running event loop. One loop per transport."""

    _kind = httpx.AsyncClient

    async def run(self, steps: Steps[T]) -> T:
        """Play the steps and return their result.

        When the asyncio task is cancelled, the steps get the `CancelledError` first and may clean up.
        """
        outcome: Outcome = None
        broken: asyncio.CancelledError | None = None
        while True:
            try:
                step = _next(steps, outcome, broken)
            except StopIteration as done:
                result: T = done.value
                return result
            except HubError as error:
                raise heard(error, self.credentials.shown()) from error.__cause__
            outcome = broken = None
            try:
                if isinstance(step, Pause):
                    await asyncio.sleep(step.seconds)
                else:
                    outcome = await self._send(step)
            except asyncio.CancelledError as error:
                broken = error

    async def _send(self, send: Send) -> Outcome:
        client, request = self._request(send)
        if isinstance(request, Unreachable):
            return request
        try:
            async with asyncio.timeout(send.timeout_s + send.wait_s):
                return await client.send(request)
        except (httpx.RequestError, TimeoutError) as error:
            return _unreachable(client, error)

    async def close(self) -> None:
        """Close the connections."""
        for client in self._opened():
            await client.aclose()


class SyncTransport(_Transport[httpx.Client]):
    """A driver that plays steps on the calling thread; any number of threads may share one.

    The time limit of a request holds for all of its phases together. It does not hold for looking up the hub's name,
    nor for an answer that arrives a few bytes at a time, because a thread cannot be stopped in the middle of these.
    """

    _kind = httpx.Client

    def run(self, steps: Steps[T], stop: threading.Event | None = None) -> T:
        """Play the steps and return their result; raise `Stopped` once `stop` is set.

        When the thread is interrupted, by Ctrl-C or an error of a signal handler, the steps get that error first and
        may clean up.
        """
        outcome: Outcome = None
        broken: BaseException | None = None
        while True:
            if stop is not None and stop.is_set():
                raise Stopped
            try:
                step = _next(steps, outcome, broken)
            except StopIteration as done:
                result: T = done.value
                return result
            except HubError as error:
                raise heard(error, self.credentials.shown()) from error.__cause__
            outcome = broken = None
            try:
                outcome = self._play(step, stop)
            except BaseException as error:  # noqa: BLE001 - the steps raise it again
                broken = error

    def _play(self, step: Send | Pause, stop: threading.Event | None) -> Outcome:
        if not isinstance(step, Pause):
            return self._send(step)
        if stop is not None:
            stop.wait(step.seconds)
        else:
            time.sleep(step.seconds)
        return None

    def _send(self, send: Send) -> Outcome:
        client, request = self._request(send)
        if isinstance(request, Unreachable):
            return request
        if send.content is None:  # an upload may take the whole time for each phase
            request.extensions["timeout"] = _Remaining(send)
        try:
            return client.send(request)
        except httpx.RequestError as error:
            return _unreachable(client, error)

    def close(self) -> None:
        """Close the connections, unless they are those of a client that was given."""
        if not self._lent:
            for client in self._opened():
                client.close()

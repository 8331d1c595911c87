"""What every request passes first: who may call, the path alias, the size of its body, its time, and the last word on
failures."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

from fastapi import FastAPI
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hub.api import measured
from hub.api.bodies import SPEECH, preferred_wait
from hub.api.deadlines import Deadlines
from hub.api.deps import CYCLE, SERVING, check_caller
from hub.api.door import MARK, Door, Visit
from hub.api.edge import hot
from hub.api.edge.hot_request import HotRequest
from hub.api.edge.neutral import ASKED, Speech, Writer
from hub.api.edge.renderings import LISTS, Renderings
from hub.api.guard.freight import LIGHT, Freight
from hub.api.guard.gate import SAFE, Gate, first_of
from hub.api.jobs.limits import Limits
from hub.api.paths import ENDLESS, SOCKETS, is_ours, keep_escaped, read_id
from hub.api.problems import answer, as_hub_error, note_failure, refuse, slow_down_guesses
from hub.api.waiting import TIME
from hub.errors import HubError, RequestTimedOut, Stopping, TooLarge, Unavailable
from hub.observability.logs import get_logger
from hub.observability.tracing import tracing
from hub.settings import Settings
from hub.store.callers import waiting_until
from hub.tokens.logins import Login

ALIAS = "/api/v1"
SEND_S = 5.0  # for a client to take a refusal

_log = get_logger("hub.api")


class Edge:
    """The outermost ASGI application; `app` is the routed one."""

    def __init__(self, app: FastAPI, settings: Settings, gate: Gate | None, speech: Speech) -> None:
        self.app = app
        self._gate = gate
        self._timeout_s = settings.request_timeout_s
        self._deadlines = Deadlines(self._timeout_s)
        self._control_bytes = settings.max_control_body_bytes
        self._log_bytes = settings.max_log_body_bytes
        self._joblib = Limits(settings)
        self._speech = speech
        self._renderings = Renderings()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, self._one_sentence(send))
            return
        keep_escaped(scope)
        if scope["path"].startswith(SOCKETS):
            await (self._poll if scope["type"] == "http" else self._socket)(scope, receive, send)
        elif scope["type"] == "http" and tracing.on:
            with tracing.request(scope["method"], scope["headers"]):
                await self._http(scope, receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    def _one_sentence(self, send: Send) -> Send:
        """Say in a sentence why the hub does not start, where the framework would say it with a traceback."""

        async def say(message: Message) -> None:
            refusal: str | None = getattr(self.app.state, "refusal", None)
            if message["type"] == "lifespan.startup.failed" and refusal:
                message = {**message, "message": f"The hub does not start. {refusal}"}
            await send(message)

        return say

    async def _poll(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A request of those who are without a WebSocket: counted as any other."""
        scope[measured.ROUTE], started, code = SOCKETS, time.perf_counter(), 0

        async def put(message: Message) -> None:
            nonlocal code
            code = message.get("status", code)
            await send(message)

        with tracing.request(scope["method"], scope["headers"]) if tracing.on else nullcontext():
            try:
                await self._socket(scope, receive, put)
            finally:
                measured.note(scope, code, time.perf_counter() - started)

    async def _socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if self._gate:
                self._gate.check(scope, socket=True)
        except HubError as refusal:
            await refuse(refusal, scope, receive, send)
            return
        found: ASGIApp | None = getattr(self.app.state, "sockets", None)
        if found is None:
            await refuse(Stopping("The hub is starting", retry_after_s=1), scope, receive, send)
            return
        await found(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"].startswith(ALIAS + "/") and not is_ours(scope["path"][len(ALIAS) :]):
            scope["path"] = scope["path"][len(ALIAS) :]
        exchange = _Exchange(receive, send, self._limit(scope["path"]))
        started = time.perf_counter()
        work: AbstractContextManager[None] = nullcontext()
        if scope["method"] == "HEAD":
            scope, exchange = {**scope, "method": "GET"}, _Head(receive, send, exchange.limit)
        try:
            with nullcontext() if scope["path"] in ENDLESS else self._deadlines.begin() as limit:
                scope[TIME], scope[CYCLE] = limit, getattr(receive, "__self__", None)
                headers = self._gate.check(scope) if self._gate else first_of(scope["headers"])
                if ASKED in headers.get(b"accept", b""):
                    exchange.speak(Writer(self._speech, scope, exchange.put))
                    scope[SPEECH] = self._speech
                exchange.check_length(headers.get(b"content-length", b""))
                if found := getattr(self.app.state, "serving", None):
                    scope[SERVING] = found
                    exchange.weigh(found.freight, scope)
                    if scope["method"] != "GET":
                        await check_caller(scope, found)
                        if b"prefer" in headers:
                            work = _until(scope, found.hub.store.latest_ms())
                with work:
                    if b"cookie" in headers or MARK in headers or scope["path"].startswith("/console/"):
                        await self._visited(scope, headers, exchange)
                    else:
                        await self._answer(scope, exchange, headers)
        except asyncio.CancelledError:
            raise
        except ClientDisconnect:
            return  # the caller hung up before his request was complete: there is nobody left to answer
        except Exception as error:  # noqa: BLE001 - the last word: nothing a client does ends in a bare connection loss
            await self._refuse(error, exchange, scope)
        finally:
            exchange.unload()
            measured.note(scope, exchange.status, time.perf_counter() - started)

    async def _answer(self, scope: Scope, exchange: _Exchange, headers: Mapping[bytes, bytes] | None = None) -> None:
        endpoint = hot.find(scope)
        if endpoint is None:
            await self.app(scope, exchange.receive, exchange.send)
            return
        scope["app"], scope["endpoint"], scope[measured.ROUTE] = self.app, endpoint, hot.TEMPLATES[endpoint]
        if headers is None:  # the door has put others there
            headers = first_of(scope["headers"])
        response = await endpoint(HotRequest(scope, exchange.receive, exchange.send, headers))
        await response(scope, exchange.receive, exchange.send)

    async def _visited(self, scope: Scope, headers: Mapping[bytes, bytes], exchange: _Exchange) -> None:
        """A call that a page may have made: with a cookie, or with the mark of the console."""
        door: Door | None = getattr(self.app.state, "door", None)
        visit: Visit | None = await door.enter(scope, headers) if door else None
        if visit is None or door is None:
            await self._answer(scope, exchange)
        elif visit.login and scope["path"] in ENDLESS:
            await door.while_good(visit, self._answer(scope, exchange))
        elif visit.login and scope["method"] == "GET" and scope["path"] in LISTS and not isinstance(exchange, _Head):
            await self._list(visit.login, scope, headers, exchange)
        else:
            if scope["method"] not in SAFE:
                exchange.before_answer = self._changed
            await self._answer(scope, exchange)
            if exchange.status < 400:
                await door.note(visit, scope)

    def _changed(self) -> None:
        """A page has changed something: whoever asks from now on sees it."""
        self._renderings.changed()
        self.app.state.glance.changed()

    async def _list(self, login: Login, scope: Scope, headers: Mapping[bytes, bytes], exchange: _Exchange) -> None:
        """A list that many pages may ask for at once: made once for all who show the same credential and role."""
        live, (_, credential) = self.app.state.serving.live, scope["headers"][-1]  # as the door has put it there
        if not live.followed:  # nobody would learn here that something has happened
            await self._answer(scope, exchange)
            return
        asked = (headers.get(b"accept"), headers.get(b"accept-encoding"), credential, login.role)
        key, position = (scope["path"], scope["query_string"], *asked), live.position
        if (messages := await self._renderings.find(key, position)) is not None:
            scope[measured.ROUTE] = scope["path"]
            await exchange.repeat(messages)
            return

        async def render(hear: Callable[[Message], None]) -> None:
            exchange.tell(hear)
            await self._answer(scope, exchange)

        await self._renderings.make(key, position, render)

    async def _refuse(self, error: Exception, exchange: _Exchange, scope: Scope) -> None:
        if exchange.too_large:
            error = TooLarge(_too_large(exchange.limit))
        elif isinstance(error, TimeoutError):
            error = (
                Unavailable("The request took too long.")
                if exchange.body_complete
                else RequestTimedOut(f"The body did not arrive within {self._timeout_s:g} s.")
            )
        refusal = error if isinstance(error, HubError) else as_hub_error(error)
        note_failure(refusal, error, scope)
        if not exchange.started:
            await slow_down_guesses(self.app, scope, refusal)
        try:
            async with asyncio.timeout(SEND_S):
                if not exchange.started:
                    await answer(refusal, scope["path"])(scope, exchange.receive, exchange.send)
                    return
        except TimeoutError:
            _log.debug("answer not read by the client", path=read_id(scope["path"]))
        if transport := getattr(scope[CYCLE], "transport", None):
            transport.abort()  # of an answer that has begun nobody can be told that it is not complete in another way

    def _limit(self, path: str) -> int:
        if is_ours(path):
            return self._joblib.of(path)
        return self._log_bytes if "/commands" in path or "/api-logs" in path else self._control_bytes


class _Exchange:
    """One request and its answer, watched for size and for how far they got."""

    def __init__(self, receive: Receive, send: Send, limit: int) -> None:
        self._freight: Freight | None = None
        self._scope: Scope = {}
        self._caller = ""
        self._announced = self._loaded = 0
        self._receive = receive
        self._wire = self._send = send
        self._heard: Callable[[Message], None] | None = None
        self.before_answer: Callable[[], None] | None = None
        self.limit = limit
        self._received = 0
        self.too_large = False
        self.body_complete = False
        self.started = False
        self.status = 0

    def speak(self, send: Send) -> None:
        """Have the answer sent by this."""
        self._send = send

    def tell(self, hear: Callable[[Message], None]) -> None:
        """Have this hear what goes out, as it goes out."""
        self._heard = hear
        if self._send is self._wire:
            self._send = self.put

    async def put(self, message: Message) -> None:
        """Let a message out."""
        if self._heard is not None:
            self._heard(message)
        await self._wire(message)

    async def repeat(self, messages: Sequence[Message]) -> None:
        """Answer as somebody else was answered."""
        self.started, self.status = True, 200
        for message in messages:
            await self._wire(message)

    def check_length(self, announced: bytes) -> None:
        """Refuse a body by its announced length, before anything else is looked at."""
        if announced.isdigit():
            self._announced = int(announced)
            if self._announced > self.limit:
                raise TooLarge(_too_large(self.limit))

    def weigh(self, freight: Freight, scope: Scope) -> None:
        """Count a large body among those that are under way, once somebody wants to read it."""
        self._freight, self._scope = freight, scope

    def unload(self) -> None:
        """The request is over, and its body is gone."""
        if self._freight is not None and self._loaded:
            self._freight.unload(self._caller, self._loaded)
            self._loaded = 0

    async def receive(self) -> Message:
        size = max(self._received, self._announced)
        if self._freight is not None and not self._loaded and size > LIGHT:
            size, self._caller = self._announced or self.limit, _caller(self._scope)
            await self._freight.load(self._caller, size)
            self._loaded = size
        message = await self._receive()
        if message["type"] == "http.request":
            self._received += len(message.get("body", b""))
            if self._received > self.limit:
                self.too_large = True
                raise TooLarge(_too_large(self.limit))
            self.body_complete = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if self.before_answer is not None and not self.started:
            self.before_answer()
        self.started = True
        self.status = message.get("status", self.status)
        await self._send(message)


class _Head(_Exchange):
    """An exchange of which only the head is sent; it ends there, also where the body would have no end."""

    async def receive(self) -> Message:
        return {"type": "http.disconnect"} if self.started else await super().receive()

    async def send(self, message: Message) -> None:
        if not self.started:
            await super().send(message)
            await super().send({"type": "http.response.body", "body": b"", "more_body": False})


def _until(scope: Scope, now_ms: int | None) -> AbstractContextManager[None]:
    """Around a call that says with `Prefer: wait=N` how long its caller waits: after that nothing is changed for it."""
    preferences = b",".join(value for name, value in scope["headers"] if name == b"prefer")
    wait_s = preferred_wait(preferences.decode("latin-1"))
    return waiting_until(now_ms + 1000 * wait_s) if wait_s and now_ms is not None else nullcontext()


def _caller(scope: Scope) -> str:
    """Who sends a body: the credential he shows, or where he is."""
    headers = first_of(scope["headers"])
    shown = headers.get(b"authorization") or headers.get(b"x-hub-secret")
    return hashlib.sha256(shown).hexdigest() if shown else str((scope.get("client") or [""])[0])


def _too_large(limit: int) -> str:
    return f"The body has more than {limit} bytes; send less at a time."

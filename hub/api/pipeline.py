"""The steps of a request, in order: its row in the table, bounds, caller, body, endpoint, answer.

In a hub with realms `hub.api.dispatch.realms` has found the realm before, by the same row, and hands the request to the
pipeline of this realm. Most heartbeats take a short way instead: `hub.api.serving.heartbeats`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext

from fastapi import FastAPI
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hub.api.callers.admission import admit
from hub.api.callers.credentials import slow_down_guesses
from hub.api.callers.logins import MARK, LoginGate, Visit
from hub.api.contract.neutral import neutral_names
from hub.api.handling import request_counts
from hub.api.handling.bounds import Bounds
from hub.api.handling.browsers import Gate, first_of
from hub.api.handling.context import CYCLE, SERVING, check_caller, hang_up
from hub.api.handling.deadlines import Deadlines
from hub.api.handling.exchange import Exchange, HeadExchange, too_large
from hub.api.handling.light_request import LightRequest
from hub.api.handling.long_polls import TIME
from hub.api.handling.problems import answer, as_hub_error, note_failure, refuse
from hub.api.handling.shared_lists import SharedLists
from hub.api.operations import SAFE, Found, Table
from hub.api.paths import SOCKETS, V2, keep_escaped, read_id
from hub.api.shapes.neutral import BEFORE, CONTENT_TYPE, MEMBERS, NEUTRAL
from hub.api.shapes.reading import preferred_wait
from hub.errors import HubError, RequestTimedOut, Stopping, TooLarge, Unavailable
from hub.observability.logs import get_logger
from hub.observability.tracing import tracing
from hub.settings import Settings
from hub.store.callers import waiting_until
from hub.tokens.logins import Login

SEND_S = 5.0  # for a client to take a refusal

_log = get_logger("hub.api")


class RequestPipeline:
    """The outermost ASGI application of one realm. `app` is the application with the routes, and `table` has a row for
    each route."""

    def __init__(self, app: FastAPI, settings: Settings, table: Table, gate: Gate | None) -> None:
        self.app = app
        self._table = table
        self._gate = gate
        self._timeout_s = settings.request_timeout_s
        self._deadlines = Deadlines(self._timeout_s)
        self._bounds = Bounds(settings)
        self._shared_lists = SharedLists()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, self._one_sentence(send))
            return
        keep_escaped(scope)
        if scope["path"].startswith(SOCKETS):
            await (self._poll if scope["type"] == "http" else self._socket)(scope, receive, send)
        elif scope["type"] != "http":
            await self.app(scope, receive, send)
        elif tracing.on:
            with tracing.request(scope["method"], scope["headers"]):
                await self._pass(scope, receive, send)
        else:
            await self._pass(scope, receive, send)

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take a request through all steps, and count it."""
        started = time.perf_counter()
        kind = Exchange
        if scope["method"] == "HEAD":
            scope, kind = {**scope, "method": "GET"}, HeadExchange
        found, scope["path"], is_v2 = self._table.look_up(scope["method"], scope["path"])
        if is_v2:
            scope[BEFORE] = V2.encode()
        row = found.row
        exchange = kind(receive, send, self._bounds.of(found, scope["path"]))
        work: AbstractContextManager[None] = nullcontext()
        is_endless = row is not None and row.facts.endless
        try:
            with nullcontext() if is_endless else self._deadlines.begin() as limit:
                scope[TIME], scope[CYCLE] = limit, getattr(receive, "__self__", None)
                headers = self._gate.check(scope, row) if self._gate else first_of(scope["headers"])
                if is_v2 or CONTENT_TYPE in headers.get(b"accept", b""):
                    scope[NEUTRAL] = neutral_names(row)
                exchange.check_length(headers.get(b"content-length", b""))
                if (serving := getattr(self.app.state, "serving", None)) is not None:
                    scope[SERVING] = serving
                    exchange.count_body(serving.large_bodies, scope)
                    if scope["method"] != "GET":
                        await check_caller(scope, serving)
                        if b"prefer" in headers:
                            work = _until(scope, serving.hub.store.latest_ms())
                with work:
                    if b"cookie" in headers or MARK in headers or (row is not None and row.facts.page):
                        await self._visited(scope, headers, exchange, found)
                    else:
                        await self._answer(scope, headers, exchange, found)
        except asyncio.CancelledError:
            raise
        except ClientDisconnect:
            return  # the caller hung up before its request was complete
        except Exception as error:  # noqa: BLE001 - every failure is answered
            await self._refuse(error, exchange, scope)
        finally:
            exchange.release_body()
            request_counts.note(scope, exchange.status, time.perf_counter() - started, timed=not is_endless)

    async def _visited(self, scope: Scope, headers: Mapping[bytes, bytes], exchange: Exchange, found: Found) -> None:
        """Answer a call that may come from a page of the console: it has a cookie or the mark of the console, or its
        route is for pages."""
        logins: LoginGate | None = getattr(self.app.state, "logins", None)
        visit: Visit | None = await logins.enter(scope, headers, found) if logins else None
        facts = found.row.facts if found.row is not None and found.is_taken else None
        headers = first_of(scope["headers"])  # the gate of logins may have changed the headers
        if visit is None or logins is None:
            await self._answer(scope, headers, exchange, found)
        elif visit.login and facts and facts.endless:
            await logins.while_good(visit, self._answer(scope, headers, exchange, found))
        elif visit.login and facts and facts.shared and not isinstance(exchange, HeadExchange):
            await self._list(visit.login, scope, headers, exchange, found)
        else:
            if scope["method"] not in SAFE:
                exchange.before_answer = self._changed
            await self._answer(scope, headers, exchange, found)
            if exchange.status < 400:
                await logins.note(visit, scope, found.row)

    async def _list(
        self, login: Login, scope: Scope, headers: Mapping[bytes, bytes], exchange: Exchange, found: Found
    ) -> None:
        """Answer with a list that many pages may ask for at once: the list is made once for all pages with the same
        credential and role."""
        live, (_, credential) = (
            self.app.state.serving.live,
            scope["headers"][-1],
        )  # the login gate has put the credential last
        if not live.followed:  # then the hub would not notice that a kept list is out of date
            await self._answer(scope, headers, exchange, found)
            return
        asked = (NEUTRAL in scope, headers.get(b"accept"), headers.get(b"accept-encoding"), credential, login.role)
        key, position = (scope["path"], scope["query_string"], *asked), live.position
        if (messages := await self._shared_lists.find(key, position)) is not None:
            scope[request_counts.ROUTE] = scope["path"]
            await exchange.repeat(messages)
            return

        async def render(hear: Callable[[Message], None]) -> None:
            exchange.tell(hear)
            await self._answer(scope, headers, exchange, found)

        await self._shared_lists.make(key, position, render)

    def _changed(self) -> None:
        """Drop what is kept for pages, because a page has changed something: later calls must see the change."""
        self._shared_lists.changed()
        self.app.state.overview.changed()

    async def _answer(self, scope: Scope, headers: Mapping[bytes, bytes], exchange: Exchange, found: Found) -> None:
        """Check the caller, and call the endpoint. FastAPI calls endpoints that are not plain, and answers requests
        without a row."""
        row = found.row
        if row is None or not found.is_taken:
            await self.app(scope, exchange.receive, exchange.send)
            return
        scope["app"], scope["endpoint"], scope["path_params"] = self.app, row.endpoint, found.parts
        scope[request_counts.ROUTE], scope[MEMBERS] = row.path, neutral_names(row)
        request = LightRequest(scope, exchange.receive, exchange.send, headers)
        try:
            await admit(request, row)
            given = await row.read(request, self.app.dependency_overrides) if row.is_plain else []
        except HubError as refusal:
            if row.facts.denied is not None:
                await row.facts.denied(request, refusal)
            raise
        if not row.is_plain:
            await self.app(scope, exchange.receive, exchange.send)
            return
        response = await row.endpoint(*given)
        await response(scope, exchange.receive, exchange.send)

    async def _refuse(self, error: Exception, exchange: Exchange, scope: Scope) -> None:
        if exchange.too_large:
            error = TooLarge(too_large(exchange.limit))
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
                    await answer(refusal, scope)(scope, exchange.receive, exchange.send)
                    return
        except TimeoutError:
            _log.debug("answer not read by the client", path=read_id(scope["path"]))
        hang_up(scope)  # the only way to show that an answer which has begun is not complete

    def _one_sentence(self, send: Send) -> Send:
        """Return a `send` for the start of the application: a start that fails is reported in one sentence, without a
        traceback."""

        async def say(message: Message) -> None:
            refusal: str | None = getattr(self.app.state, "refusal", None)
            if message["type"] == "lifespan.startup.failed" and refusal:
                message = {**message, "message": f"The hub does not start. {refusal}"}
            await send(message)

        return say

    async def _poll(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request for the sockets over HTTP, and count it like any other request."""
        scope[request_counts.ROUTE], started, code = SOCKETS, time.perf_counter(), 0

        async def put(message: Message) -> None:
            nonlocal code
            code = message.get("status", code)
            await send(message)

        with tracing.request(scope["method"], scope["headers"]) if tracing.on else nullcontext():
            try:
                await self._socket(scope, receive, put)
            finally:
                request_counts.note(scope, code, time.perf_counter() - started)

    async def _socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if self._gate:
                self._gate.check(scope, None, socket=True)
        except HubError as refusal:
            await refuse(refusal, scope, receive, send)
            return
        found: ASGIApp | None = getattr(self.app.state, "sockets", None)
        if found is None:
            await refuse(Stopping("The hub is starting", retry_after_s=1), scope, receive, send)
            return
        await found(scope, receive, send)


def _until(scope: Scope, now_ms: int | None) -> AbstractContextManager[None]:
    """Return a context manager around a call with `Prefer: wait=N`: the store changes nothing for the call after its N
    seconds, when its caller has stopped waiting."""
    preferences = b",".join(value for name, value in scope["headers"] if name == b"prefer")
    wait_s = preferred_wait(preferences.decode("latin-1"))
    return waiting_until(now_ms + 1000 * wait_s) if wait_s and now_ms is not None else nullcontext()

"""HTTP/1.1 as the hub speaks it: uvicorn's, with bounds on request heads, one write per answer, and a short way for
heartbeats."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from hub.api import beats, events
from hub.api.deps import Serving
from hub.api.problems import MEDIA_TYPE, problem
from hub.errors import BadInput

HEAD_BYTES_MAX = 32_768  # request line and headers
BEAT_BYTES_MAX = 8_192  # a heartbeat that acknowledges many slots goes the way of all requests


class JoinedWrites:
    """A transport that sends what is written in one turn of the loop in one piece: the server writes head and body
    of an answer apart, and a system call costs more than an endpoint."""

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> None:
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)

    def _flush(self) -> None:
        parts, self._parts = self._parts, []
        if parts and not self._transport.is_closing():
            self._transport.write(b"".join(parts))

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def abort(self) -> None:
        self._parts.clear()
        self._transport.abort()

    def is_closing(self) -> bool:
        closing: bool = self._transport.is_closing()
        return closing

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)


class HubProtocol(HttpToolsProtocol):
    """Cuts off request heads that are too slow or too long, and answers broken ones with a problem document.

    A heartbeat that arrives whole is handed to `hub.api.beats` without a task and without routing; whatever is unusual
    about one sends it the way of all requests, so that refusals are made in one place.
    """

    head_timeout_s = 15.0
    serving: Serving | None = None  # of the one application in this process, once it has started

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.transport = JoinedWrites(transport, self.loop)  # type: ignore[assignment]
        self._head_since: float | None = self.loop.time()  # None while no head is awaited
        self._in_head = self._reading = False
        self._chunk_bytes = self._head_bytes = 0
        self._beat: tuple[Any, Any] | None = None
        self._watch = self.loop.call_later(self.head_timeout_s, self._check_head)

    def connection_lost(self, exc: Exception | None) -> None:
        self._watch.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._chunk_bytes = len(data)
        if self._in_head:  # what it began with is looked at when it is complete
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES_MAX:
                self.send_400_response("The request head is too long.")
                return
        self._reading = True
        super().data_received(data)
        self._reading = False
        if self._beat is not None:
            self._take_beat(*self._beat)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0
        if self._head_since is None:
            self._head_since = self.loop.time()

    def on_headers_complete(self) -> None:
        self._in_head, self._head_since = False, None
        if self._chunk_bytes + self._head_bytes > HEAD_BYTES_MAX:
            size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
            if size > HEAD_BYTES_MAX:
                raise ValueError("the request head is too long")
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        document = orjson.dumps(problem(BadInput(f"{msg} Send HTTP/1.1 with a head of at most 32 KiB."), "/"))
        head = f"HTTP/1.1 400 Bad Request\r\ncontent-type: {MEDIA_TYPE}\r\ncontent-length: {len(document)}\r\n"
        self.transport.write(head.encode() + b"connection: close\r\n\r\n" + document)
        self.transport.close()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        scope = cycle.scope
        if self._reading and scope["path"] == beats.PATH and scope["method"] == "POST":
            self._beat = (cycle, app)  # its body may be in what is being read: see data_received
        else:
            if scope["path"].endswith(events.PATH):
                scope["extensions"] = {events.ABORT: self.transport.abort}
            super()._start_asgi_task(cycle, app)

    def _take_beat(self, cycle: Any, app: Any) -> None:
        self._beat = None
        start = super()._start_asgi_task
        unusual = cycle.more_body or not cycle.keep_alive or self.flow.write_paused or len(cycle.body) > BEAT_BYTES_MAX
        if unusual or self.serving is None or not beats.take(self.serving, cycle, lambda: start(cycle, app)):
            start(cycle, app)

    def _check_head(self) -> None:
        """One timer a connection, started again for what is left: cheaper than one a request."""
        waited_s = 0.0 if self._head_since is None else self.loop.time() - self._head_since
        if waited_s < self.head_timeout_s:
            self._watch = self.loop.call_later(self.head_timeout_s - waited_s, self._check_head)
        elif not self.transport.is_closing():
            self.transport.close()

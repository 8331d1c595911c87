"""HTTP/1.1 of the hub: uvicorn's protocol, with bounds on how long and for how many bytes a client may keep the hub
waiting, one write per answer, and a short way for heartbeats."""

from __future__ import annotations

import math
from http import HTTPStatus
from typing import Any, ClassVar

import httptools
import orjson

from hub.api.handling import browsers
from hub.api.handling.context import Serving
from hub.api.handling.problems import MEDIA_TYPE, problem
from hub.api.serving import heartbeats
from hub.api.serving.connections import Connections
from hub.api.serving.private import HIGH_WATER_LIMIT, HttpToolsProtocol
from hub.api.serving.tls import Certificates, names_in, show
from hub.api.serving.writing import JoinedWrites
from hub.api.shapes.neutral import CONTENT_TYPE
from hub.errors import BadInput, HubError, Unavailable

HEAD_BYTES_MAX = 32_768  # request line and headers
BETWEEN_BYTES_MAX = 65_536  # bytes in a row that are not body: sizes of chunks, and trailers after the last chunk
BEAT_BYTES_MAX = 8_192  # a heartbeat that acknowledges many slots goes the way of all requests
PIPELINED_MAX = 256  # requests of one connection that wait until the requests before them are answered
REST_S = 5.0  # for the rest of a body whose request has been answered already
NEVER = math.inf
_NOTED_HEADERS = frozenset((*browsers.SIGNS, b"user-agent", b"host", b"expect", b"upgrade", b"accept"))
_OFFERS = (b"upgrade", b"http2-settings")


class HubProtocol(HttpToolsProtocol):
    """The protocol of an HTTP connection: it closes the connections of clients that are too slow, and answers broken
    requests with a problem document.

    A heartbeat that arrives whole goes to `hub.api.serving.heartbeats`, without a task of asyncio and without routing.
    An unusual heartbeat goes the way of all requests, so that refusals are made in one place.
    """

    head_timeout_s = 15.0
    body_timeout_s = 65.0
    serving: Serving | None = None  # that of the application in this process; None until the application has started
    known_hosts: ClassVar[set[bytes]] = set()  # values of `Host` that the gate has let in
    all_open = Connections()
    certificates: Certificates | None = None  # the certificates of this process; None where it serves no TLS

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.transport = JoinedWrites(transport, self.loop)  # type: ignore[assignment]
        self._now = self.loop.time()
        self._since, self._patience = self._now, float(self.head_timeout_s)  # wait for the client: since, at most
        self._in_head = self._reading = self._moved_on = self._unusual = self._offers = self._upgrading = False
        self._hosts = self._chunk_bytes = self._head_bytes = self._between_bytes = 0
        self._plain_head = b""  # head of a request that offers to leave HTTP/1.1, without the offer
        self._names = names_in(transport.get_extra_info("peercert")) if self.certificates else ()
        self._beat: tuple[Any, Any] | None = None
        self._tick_s = min(self.head_timeout_s, self.timeout_keep_alive) / 4
        self._due = self._now + self._tick_s
        self._watch = self.loop.call_later(self._tick_s, self._look)
        if not self.all_open.opened(self, self.client[0] if self.client else ""):
            self._refuse(Unavailable("The hub has too many connections; try again."))

    def connection_lost(self, exc: Exception | None) -> None:
        self._watch.cancel()
        self.transport.lost()  # type: ignore[attr-defined]
        self.all_open.closed(self)
        super().connection_lost(exc)

    def eof_received(self) -> None:
        self.transport.close()

    def waits_since(self) -> float:
        """Return the time on the loop's clock at which the hub began to wait for the client, for `Connections`;
        infinite while a request is being served."""
        return self._since

    def let_go(self) -> None:
        """Close the connection at once, for `Connections`."""
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        self._now = self.loop.time()
        self._chunk_bytes = len(data)
        self._reading = True
        if self._in_head:  # a head that began in an earlier piece; `on_headers_complete` checks its size as well
            if self._head_bytes + len(data) > HEAD_BYTES_MAX:
                left = HEAD_BYTES_MAX - self._head_bytes
                self._head_bytes += left
                self._feed(data[:left])
                if self._in_head and self._head_bytes >= HEAD_BYTES_MAX:
                    self.send_400_response("The request head is too long.")
                    return
                data = data[left:]
            else:
                self._head_bytes += len(data)
        elif self.cycle is not None and self.cycle.more_body:
            self._between_bytes += len(data)
        self._feed(data)
        self._reading = False
        if self._moved_on:
            self._moved_on = False
            if self._in_head and self.cycle is not None:
                self._wait(self.head_timeout_s)
            elif not self._in_head and not self._upgrading and self.cycle is not None and self.cycle.more_body:
                self._wait(self.body_timeout_s)
        if self._between_bytes > BETWEEN_BYTES_MAX:
            self.send_400_response("The body is too long for what is in it.")
        elif self._beat is not None:
            self._take_beat(*self._beat)

    def _feed(self, data: Any) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._go_on(memoryview(data)[upgrade.args[0] :])
        except httptools.HttpParserError:
            self.send_400_response("This is no HTTP request.")

    def _go_on(self, rest: memoryview) -> None:
        """Continue as a WebSocket, or parse the request again as plain HTTP without its offer to speak another
        protocol. The parser stops behind the head of a request with such an offer; `rest` is what it has not read."""
        while not self._upgrading:
            head, self._plain_head = self._plain_head, b""
            if not head:
                self.send_400_response("Nothing is tunnelled here.")
                return
            self.parser = httptools.HttpRequestParser(self)
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
            try:
                self.parser.feed_data(head)
                self.parser.feed_data(rest)
                return
            except httptools.HttpParserUpgrade as upgrade:
                rest = rest[upgrade.args[0] :]
            except httptools.HttpParserError:
                self.send_400_response("This is no HTTP request.")
                return
        self.handle_websocket_upgrade()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head_bytes, self._hosts = True, 0, 0
        self._unusual = self._offers = False
        self._moved_on = True

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name in _NOTED_HEADERS:
            if name == b"host":
                self._hosts += 1
                if value not in self.known_hosts:
                    self._unusual = True
            else:
                self._note(name, value)
        self.headers.append((name, value))

    def _note(self, name: bytes, value: bytes) -> None:
        if name == b"upgrade":
            self._offers = True
        elif name == b"expect":
            self.expect_100_continue = value.lower() == b"100-continue"
        elif name == b"accept":
            self._unusual = self._unusual or CONTENT_TYPE in value
        elif name != b"user-agent" or value.startswith(browsers.BROWSER):
            self._unusual = True

    def on_headers_complete(self) -> None:
        if self._names and self.serving is not None:
            show(self._names, self.headers, self.serving)
        self._in_head, self._moved_on = False, True
        if self._chunk_bytes + self._head_bytes > HEAD_BYTES_MAX:
            size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
            if size > HEAD_BYTES_MAX:
                raise ValueError("the request head is too long")
        if self._offers and self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT":
            self._upgrading = self._should_upgrade()
            if not self._upgrading:
                self._plain_head = self._without_offers()
                return
        super().on_headers_complete()
        self.headers = []  # trailers after the body must not become headers of this request
        if len(self.pipeline) > PIPELINED_MAX:
            raise ValueError("too many requests at once")

    def _without_offers(self) -> bytes:
        """Return the head of this request, without its offer to speak another protocol than HTTP/1.1."""
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())]
        for name, value in self.headers:
            if name == b"connection":
                words = [word for word in value.split(b",") if word.strip().lower() not in _OFFERS]
                value = b",".join(words)
            if name not in _OFFERS:
                lines.append(name + b": " + value)
        return b"\r\n".join([*lines, b"", b""])

    def on_body(self, body: bytes) -> None:
        self._between_bytes = 0
        cycle = self.cycle
        if not cycle.response_complete:
            cycle.body += body
            if len(cycle.body) > HIGH_WATER_LIMIT:
                self.flow.pause_reading()
            cycle.message_event.set()

    def on_message_complete(self) -> None:
        if self._plain_head or self._upgrading:
            return
        self._between_bytes = 0
        cycle = self.cycle
        cycle.more_body = False
        if cycle.response_complete:
            self._wait(self.timeout_keep_alive)
        else:
            self._since = NEVER
            cycle.message_event.set()

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cycle, app)
        elif not self._in_head:
            self._now = self.loop.time()
            if self.cycle.more_body:
                self._wait(REST_S)
                self._look_in(REST_S)
            else:
                self._since, self._patience = self._now, self.timeout_keep_alive

    def send_400_response(self, msg: str) -> None:
        self._refuse(BadInput(f"{msg} Send HTTP/1.1 with a head of at most 32 KiB."))

    def _refuse(self, refusal: HubError) -> None:
        """Answer with a refusal, without asking the application, and close the connection."""
        self.transport.write(closing_answer(refusal))
        self.transport.close()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        scope = cycle.scope
        plain = self._reading and self._hosts == 1 and not self._unusual and b"%" not in scope["raw_path"]
        if plain and scope["path"] == heartbeats.PATH and scope["method"] == "POST":
            self._beat = (cycle, app)  # its body may be in the bytes being parsed: see `data_received`
        else:
            super()._start_asgi_task(cycle, app)

    def _take_beat(self, cycle: Any, app: Any) -> None:
        self._beat = None
        start = super()._start_asgi_task
        unusual = cycle.more_body or not cycle.keep_alive or self.flow.write_paused or len(cycle.body) > BEAT_BYTES_MAX
        if unusual or self.serving is None or not heartbeats.take(self.serving, cycle, lambda: start(cycle, app)):
            start(cycle, app)

    def _wait(self, seconds: float) -> None:
        self._since, self._patience = self._now, seconds

    def _look_in(self, seconds: float) -> None:
        self._watch.cancel()
        self._due = self.loop.time() + seconds
        self._watch = self.loop.call_later(seconds, self._look)

    def _look(self) -> None:
        """Close the connection when the client has kept the hub waiting for too long; else start the timer again. One
        timer per connection is cheaper than one per request.

        A loop that stood still runs its timers before it reads what has arrived meanwhile. The time by which this timer
        is late is therefore not counted against the client.
        """
        now = self.loop.time()
        if self._since != NEVER:
            paused = self.flow.read_paused  # then the hub waits for itself and not for the client
            self._since = now if paused else min(now, self._since + max(0.0, now - self._due))
        if now - self._since >= self._patience:
            if not self.transport.is_closing():
                self.transport.close()
        else:
            self._look_in(self._tick_s)


def closing_answer(refusal: HubError, path: str = "/") -> bytes:
    """Return a whole answer with this refusal, as bytes, for a connection that is closed without asking an
    application."""
    document = orjson.dumps(problem(refusal, path))
    head = b"HTTP/1.1 %d %b\r\ncontent-type: %b\r\ncontent-length: %d\r\nconnection: close\r\n%b\r\n"
    again = b"" if refusal.retry_after_s is None else b"retry-after: %d\r\n" % math.ceil(refusal.retry_after_s)
    phrase = HTTPStatus(refusal.status).phrase.encode()
    return head % (refusal.status, phrase, MEDIA_TYPE.encode(), len(document), again) + document

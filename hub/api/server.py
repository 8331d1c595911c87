"""Serving over HTTP: uvicorn with time and size bounds on request heads, one process or several."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import signal
import tempfile
from types import FrameType
from typing import Any

import orjson
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from hub.api import beats
from hub.api.app import create_app
from hub.api.deps import Serving
from hub.api.problems import MEDIA_TYPE, problem
from hub.errors import BadInput, StartRefused
from hub.observability.logs import configure_logs, get_logger
from hub.settings import BadSetting, Settings, load_settings
from hub.store.connection import open_store

LINGER_S = 1.0  # between refusing borrows and closing the door: load balancers look at /health/ready about that often
HEAD_BYTES_MAX = 32_768  # request line and headers, when they come in more than one read
BEAT_BYTES_MAX = 8_192  # a heartbeat that acknowledges many slots goes the way of all requests
_log = get_logger("hub.serve")


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

    def is_closing(self) -> bool:
        closing: bool = self._transport.is_closing()
        return closing

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)


class HubProtocol(HttpToolsProtocol):
    """Cuts off request heads that are too slow or too long, answers broken ones with a problem document, and hands
    complete heartbeats to `hub.api.beats` before a task is made for them."""

    head_timeout_s = 15.0
    serving: Serving | None = None  # of the one application in this process, once it has started

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.transport = JoinedWrites(transport, self.loop)  # type: ignore[assignment]
        self._head_since: float | None = self.loop.time()
        self._head_bytes = 0
        self._beat: tuple[Any, Any] | None = None
        self._watch = self.loop.call_later(self.head_timeout_s, self._check_head)

    def connection_lost(self, exc: Exception | None) -> None:
        self._watch.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._beat is not None:
            self._take_beat(*self._beat)
        elif self._head_since is not None:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES_MAX and not self.transport.is_closing():
                self.send_400_response("The request head is too long.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_since = self.loop.time()
        self._head_bytes = 0

    def on_headers_complete(self) -> None:
        self._head_since = None
        super().on_headers_complete()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        scope = cycle.scope
        if cycle.more_body and scope["path"] == beats.PATH and scope["method"] == "POST" and self.serving is not None:
            self._beat = (cycle, app)  # its body is probably in the same read
        else:
            super()._start_asgi_task(cycle, app)

    def _take_beat(self, cycle: Any, app: Any) -> None:
        self._beat = None
        start = super()._start_asgi_task
        usual = cycle.more_body or not cycle.keep_alive or len(cycle.body) > BEAT_BYTES_MAX or self.serving is None
        if usual or not beats.take(self.serving, cycle, lambda: start(cycle, app)):  # type: ignore[arg-type]
            start(cycle, app)

    def send_400_response(self, msg: str) -> None:
        document = orjson.dumps(problem(BadInput(f"{msg} Send HTTP/1.1 with a head of at most 32 KiB."), "/"))
        head = f"HTTP/1.1 400 Bad Request\r\ncontent-type: {MEDIA_TYPE}\r\ncontent-length: {len(document)}\r\n"
        self.transport.write(head.encode() + b"connection: close\r\n\r\n" + document)
        self.transport.close()

    def _check_head(self) -> None:
        """One timer per connection, not per request: it looks again when the head under way would be overdue."""
        now = self.loop.time()
        if self._head_since is not None and now - self._head_since >= self.head_timeout_s:
            if not self.transport.is_closing():
                self.transport.close()
            return
        self._watch = self.loop.call_at((self._head_since or now) + self.head_timeout_s, self._check_head)


def take_over(serving: Serving) -> None:
    """What a started application needs of its server: the short cut for heartbeats, and time to stop."""
    HubProtocol.serving = serving
    # What start-up made stays; collections then look at what requests make, and less often.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    refuse_before_stopping(serving)


def refuse_before_stopping(serving: Serving) -> None:
    """On the first signal refuse new borrows and turn unready, still take returns, and stop a moment later.

    Wraps the handlers that the server has set; on a second signal they act at once.
    """
    loop = asyncio.get_running_loop()

    def wrap(number: signal.Signals) -> None:
        stop = signal.getsignal(number)

        def handle(given: int, frame: FrameType | None) -> None:
            if serving.stopping:
                stop(given, frame)  # type: ignore[operator, misc]
                return
            serving.stopping = True
            _log.info("stopping", signal=signal.Signals(given).name, linger_s=LINGER_S)
            loop.call_later(LINGER_S, lambda: stop(given, frame))  # type: ignore[operator, misc]

        if callable(stop):
            signal.signal(number, handle)

    wrap(signal.SIGTERM)
    wrap(signal.SIGINT)


def run(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit code. Raises `StartRefused` before it listens."""
    try:
        settings.refuse_open_access_beyond_loopback()
    except BadSetting as error:
        raise StartRefused(str(error)) from None
    asyncio.run(_check_store(settings))
    if settings.open_access:
        _log.warning(
            "open access", host=settings.host, why="no secret is set: everybody on this machine may do anything"
        )
    elif not settings.node_secret:
        _log.warning("no node secret", why="HUB_NODE_SECRET is not set: no node can register")
    HubProtocol.head_timeout_s = settings.request_headers_timeout_s
    if settings.workers > 1:
        return _run_many(settings)
    app = create_app(settings, when_started=take_over)
    server = uvicorn.Server(uvicorn.Config(app, **_options(settings)))
    server.run()
    return 0 if server.started else 1


async def _check_store(settings: Settings) -> None:
    """Find out now, in one sentence, whether the store can be used. The embedded server is looked at when it starts."""
    if settings.redis_url:
        async with open_store(settings):
            pass


def _run_many(settings: Settings) -> int:
    """Several processes behind one socket; they share nothing but Redis and a folder of metrics."""
    folder = tempfile.mkdtemp(prefix="capacity-hub-metrics-")
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
    os.environ["HUB_WORKERS"] = str(settings.workers)
    try:
        uvicorn.run("hub.api.server:worker_app", factory=True, workers=settings.workers, **_options(settings))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def worker_app() -> Any:
    """The application of one of several processes; it reads the settings of its environment itself."""
    settings = load_settings()
    configure_logs(settings)
    HubProtocol.head_timeout_s = settings.request_headers_timeout_s
    return create_app(settings, when_started=take_over)


def _options(settings: Settings) -> dict[str, Any]:
    return {
        "host": settings.host,
        "port": settings.port,
        "http": HubProtocol,
        "loop": "uvloop",
        "ws": "none",
        "lifespan": "on",
        "log_config": None,
        "access_log": False,
        "proxy_headers": False,
        "server_header": False,
        "date_header": False,
        "timeout_keep_alive": int(settings.keep_alive_timeout_s),
        "timeout_graceful_shutdown": 10,
    }

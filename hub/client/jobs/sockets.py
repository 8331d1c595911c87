"""The Socket.IO connection of a worker: it brings news of tasks and requests to providers, and when it ends the hub
misses the worker within seconds.

It needs `python-socketio[client]`.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from hub.client import forks
from hub.client.jobs.wire import BearerToken
from hub.client.trust import tls_context
from hub.outgoing import proxy_of
from hub.retries import pause_s

log = logging.getLogger("hub.client")

CONNECT_S = 10.0
# The most reads of providers at the same time. Each has a thread, so that one that hangs does not block the connection.
MOST_READS = 8

Message = tuple[str, dict[str, str]]


@dataclass(eq=False)
class Socket:
    """A Socket.IO connection that is opened again when it ends, and then joins the rooms again. No method raises."""

    given: Any
    """True for a client that is made here, or a `socketio.Client` that the program connects."""
    url: str
    token: BearerToken
    joined: Callable[[], Iterable[Message]]
    """Returns the messages that join the rooms."""
    on_task: Callable[[], None]
    """Called in a thread of the connection when the hub has new tasks."""
    on_request: Callable[[dict[str, Any]], None] = lambda request: None
    """Called in a thread of its own with a request to a provider."""

    def __post_init__(self) -> None:
        self._own = self.given is True
        self._client: Any = None
        if not self._own:
            self._client = self.given
            self._hear()
        self.begin_anew()

    def begin_anew(self) -> None:
        """Make a new client and locks; in a forked child the old client stays the parent's."""
        if self._own:
            if self._client is not None:
                forks.leave_to_parent(self._client)
            self._client = _made(self.url)
            self._hear()
        self._stop = threading.Event()
        self._sending = threading.Lock()
        self._reading = threading.Semaphore(MOST_READS)

    def _hear(self) -> None:
        self._before: Any = getattr(self._client, "handlers", {}).get("/", {}).get("connect")
        self._client.on("task_available", self._task_available)
        self._client.on("provider_request", self._provider_request)
        self._client.on("connect", self._connected)

    @property
    def connected(self) -> bool:
        """Return whether the connection is open at this moment."""
        return bool(getattr(self._client, "connected", True))

    def start(self) -> None:
        """Connect in the background, for as long as it takes; do nothing for a client that was given."""
        if self._own:
            threading.Thread(target=self._connect, name="socket", daemon=True).start()

    def emit(self, event: str, data: dict[str, str]) -> None:
        """Send an event, or drop it while the connection is not open."""
        with self._sending:
            try:
                self._client.emit(event, data)
            except Exception as error:  # noqa: BLE001 - without the connection everything works, only later
                log.debug("socket event %s not sent: %r", event, error)

    def close(self) -> None:
        """Close the connection, unless its client was given."""
        self._stop.set()
        if self._own:
            try:
                self._client.shutdown()
            except Exception as error:  # noqa: BLE001 - the connection ends with the process
                log.debug("the connection was not closed in order: %r", error)

    def _connect(self) -> None:
        for attempt in itertools.count():
            if self._client.connected:
                break
            try:
                below = f"{urlsplit(self.url).path}/socket.io".lstrip("/")  # the client ignores the path in the URL
                self._client.connect(
                    self.url, auth=self._auth, transports=["websocket"], namespaces=["/"], wait_timeout=CONNECT_S,
                    socketio_path=below,
                )  # fmt: skip
            except Exception as error:  # noqa: BLE001 - any error: the next attempt may succeed
                if not attempt:
                    log.warning("no Socket.IO connection to %s yet, going on without: %s", self.url, error)
            else:
                break  # from now on the client connects again by itself
            if self._stop.wait(pause_s(attempt, longest_s=30.0)):
                return
        if self._stop.is_set():
            self.close()

    def _auth(self) -> dict[str, str] | None:
        token = self.token.now()
        return {"token": token} if token else None

    def _connected(self) -> None:
        for event, data in self.joined():
            self.emit(event, data)
        self.on_task()  # events may have been missed
        if self._before is not None:
            self._before()

    def _task_available(self, *_: Any) -> None:
        self.on_task()

    def _provider_request(self, request: Any) -> None:
        if isinstance(request, dict):
            threading.Thread(target=self._read, args=(request,), name="provider", daemon=True).start()

    def _read(self, request: dict[str, Any]) -> None:
        with self._reading:
            self.on_request(request)


def _made(url: str) -> Any:
    try:
        from socketio import Client

        import_module("websocket")
    except ImportError as error:
        raise RuntimeError(
            f'a socket needs python-socketio and what its client needs: pip install "python-socketio[client]" ({error})'
        ) from error
    options: dict[str, Any] = {"sslopt": {"context": context}} if (context := tls_context()) else {}
    if proxy_of(url) is None:
        options["http_no_proxy"] = ["*"]  # else its WebSocket uses proxies of the environment for any address
    return Client(handle_sigint=False, websocket_extra_options=options)

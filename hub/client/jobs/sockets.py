"""Socket.IO for workers, where it is installed: news of tasks, requests to providers, and being missed at once."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from hub.client import forks
from hub.client.jobs.wire import Credentials
from hub.client.trust import tls_context
from hub.outgoing import proxy_of
from hub.retries import pause_s

log = logging.getLogger("hub.client")

CONNECT_S = 10.0
# Reads that providers do at a time: each has a thread, for one that hangs must not silence the connection.
MOST_READS = 8

Message = tuple[str, dict[str, str]]


class Socket:
    """A connection that is open when it can be: no method raises, and each new connection joins the rooms again.

    `given` is True for a connection of one's own, or a `socketio.Client` that somebody else connects. `joined` gives
    the messages with which the rooms are joined; the other callbacks are called in threads of the connection.
    """

    def __init__(
        self,
        given: Any,
        url: str,
        credentials: Credentials,
        joined: Callable[[], Iterable[Message]],
        on_task: Callable[[], None],
        on_request: Callable[[dict[str, Any]], None],
    ) -> None:
        self._own = given is True
        self._client: Any = None
        self._url = url
        self._credentials = credentials
        self._joined = joined
        self._on_task = on_task
        self._on_request = on_request
        if not self._own:
            self._client = given
            self._hear()
        self.begin_anew()

    def begin_anew(self) -> None:
        """Take a client, locks and threads of its own; that of a forked child's parent stays the parent's."""
        if self._own:
            if self._client is not None:
                forks.leave_to_parent(self._client)
            self._client = _made(self._url)
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
        """Connect, in the background and for as long as it takes; nothing for a client that was given."""
        if self._own:
            threading.Thread(target=self._connect, name="socket", daemon=True).start()

    def emit(self, event: str, data: dict[str, str]) -> None:
        """Say something, if the connection is there."""
        with self._sending:
            try:
                self._client.emit(event, data)
            except Exception as error:  # noqa: BLE001 - without the connection everything works, only later
                log.debug("%s is not said now: %r", event, error)

    def close(self) -> None:
        """End a connection of one's own."""
        self._stop.set()
        if self._own:
            try:
                self._client.shutdown()
            except Exception as error:  # noqa: BLE001 - it ends with the process
                log.debug("the connection was not closed in order: %r", error)

    def _connect(self) -> None:
        for attempt in itertools.count():
            if self._client.connected:
                break
            try:
                below = f"{urlsplit(self._url).path}/socket.io".lstrip("/")  # it does not read that in the URL
                self._client.connect(
                    self._url, auth=self._auth, transports=["websocket"], namespaces=["/"], wait_timeout=CONNECT_S,
                    socketio_path=below,
                )  # fmt: skip
            except Exception as error:  # noqa: BLE001 - any error: the next attempt may do better
                if not attempt:
                    log.warning("no Socket.IO connection to %s yet, going on without: %s", self._url, error)
            else:
                break  # from now on the client connects again by itself
            if self._stop.wait(pause_s(attempt, longest_s=30.0)):
                return
        if self._stop.is_set():
            self.close()

    def _auth(self) -> dict[str, str] | None:
        token = self._credentials.now()
        return {"token": token} if token else None

    def _connected(self) -> None:
        for event, data in self._joined():
            self.emit(event, data)
        self._on_task()  # events may have been missed
        if self._before is not None:
            self._before()

    def _task_available(self, *_: Any) -> None:
        self._on_task()

    def _provider_request(self, request: Any) -> None:
        if isinstance(request, dict):
            threading.Thread(target=self._read, args=(request,), name="provider", daemon=True).start()

    def _read(self, request: dict[str, Any]) -> None:
        with self._reading:
            self._on_request(request)


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
        options["http_no_proxy"] = ["*"]  # else its WebSocket asks the proxies of the environment for any address
    return Client(handle_sigint=False, websocket_extra_options=options)

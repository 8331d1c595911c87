"""The change of a connection from the hub's HTTP to uvicorn's WebSocket, which is possible below the path of the
sockets only."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from hub.api.paths import ABORT, SOCKETS
from hub.api.serving.private import WebSocketsSansIOProtocol
from hub.api.serving.protocol import NEVER, HubProtocol, closing_answer
from hub.api.serving.turns import Turns
from hub.api.serving.writing import cut, expect_to_be_read
from hub.errors import BadInput

PIECE: Final = 512  # bytes read at a time: some messages; parsing one message takes a hundredth of a millisecond
GOODBYE_S = 5.0  # for a client to confirm that its WebSocket is closed; then the hub closes the connection
_log = logging.getLogger("hub.sockets.wire")
_log.setLevel(logging.WARNING)  # below that uvicorn logs every handshake with the session id, a secret


class UpgradingProtocol(HubProtocol):
    """The hub's HTTP protocol, which can become a WebSocket below the path of the sockets; elsewhere it ignores
    `Upgrade`."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._plain = transport

    def _should_upgrade(self) -> bool:
        return self._path().startswith(SOCKETS.encode()) and super()._should_upgrade()

    def _path(self) -> bytes:
        return self.url

    def handle_websocket_upgrade(self) -> None:
        self._watch.cancel()
        self._since = NEVER
        self.transport = self._plain  # a WebSocket writes whole messages itself, and must be able to pause reading
        super().handle_websocket_upgrade()
        self._plain.get_protocol().when_lost = partial(self.all_open.closed, self)


class SocketProtocol(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket without its log, and with a way to cut the connection of a client that does not read. It
    parses what a client sends a piece at a time, and reads no more while earlier pieces wait."""

    when_lost: Callable[[], None] | None = None

    def __init__(self, config: Any, server_state: Any, *args: Any, **options: Any) -> None:
        super().__init__(config, server_state, *args, **options)
        self.logger = self.conn.logger = _log
        self.close_timeout = GOODBYE_S
        self._turns: Turns = vars(server_state).setdefault("turns", Turns())  # shared by all sockets of this server
        self._unread = b""
        self._asked = False

    def connection_lost(self, exc: Exception | None) -> None:
        self._unread = b""
        super().connection_lost(exc)
        if self.when_lost is not None:
            self.when_lost()

    def data_received(self, data: bytes) -> None:
        self._unread += data
        self._read_on()
        self._pause_reading()

    async def receive(self) -> Any:
        message = await self.queue.get()
        self._read_on()
        self._resume_reading()
        await self._turns.take()
        return message

    def handle_connect(self, event: Any) -> None:
        super().handle_connect(event)
        if not self.handshake_complete:  # a refused handshake is complete already
            self.scope["extensions"][ABORT] = self._cut  # type: ignore[assignment]
            expect_to_be_read(self.transport)

    def handle_ping(self) -> None:
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.conn.data_to_send()  # drop the answer: this client does not read

    def _cut(self) -> None:
        if not self.disconnected:
            cut(self.transport)

    def _refuse_handshake(self) -> None:
        """Refuse a handshake that the WebSocket library cannot parse, because the request has a body or too many or too
        long headers. uvicorn would neither answer such a request nor close its connection."""
        if not self.transport.is_closing():
            wanted = "Ask by GET, without a body, with at most 128 headers of at most 8 KiB each."
            self.transport.write(closing_answer(BadInput(f"This begins no WebSocket. {wanted}")))
            self.close_sent = True  # uvicorn must not send a close frame: no WebSocket was opened
            self.transport.close()

    def _read_on(self) -> None:
        if self._unread and not self._asked and self.queue.empty():
            self._asked = True
            self._turns.ask(self._read)

    def _read(self) -> None:
        self._asked = False
        piece, self._unread = self._unread[:PIECE], self._unread[PIECE:]
        if piece:
            super().data_received(piece)
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            self._refuse_handshake()
        if self.transport.is_closing():
            self._unread = b""
        self._read_on()
        self._pause_reading()
        self._resume_reading()

    def _pause_reading(self) -> None:
        """Pause reading from the client while received bytes wait to be parsed."""
        if self._unread and not self.read_paused:
            self.read_paused = True
            self.transport.pause_reading()

    def _resume_reading(self) -> None:
        if self.read_paused and not self._unread and self.queue.empty() and not self.transport.is_closing():
            self.read_paused = False
            self.transport.resume_reading()

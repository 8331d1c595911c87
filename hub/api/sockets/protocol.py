"""How a connection becomes a WebSocket: from the hub's HTTP to uvicorn's WebSocket, where the sockets are and nowhere
else."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from hub.api.protocol import NEVER, HubProtocol

PATH: Final = "/socket.io/"
ABORT: Final = "hub.abort"  # in the extensions of a WebSocket: cuts its connection
_log = logging.getLogger("hub.sockets.wire")
_log.setLevel(logging.WARNING)  # the server tells of every handshake, with the session id, which is a secret


class UpgradingProtocol(HubProtocol):
    """The hub's HTTP, which may turn into a WebSocket below `PATH`; elsewhere an `Upgrade` changes nothing."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._plain = transport

    def _should_upgrade(self) -> bool:
        return self.url.startswith(PATH.encode()) and super()._should_upgrade()

    def handle_websocket_upgrade(self) -> None:
        self._watch.cancel()
        self._since = NEVER
        self.transport = self._plain  # a WebSocket writes whole messages, and needs to pause its reading
        super().handle_websocket_upgrade()
        self._plain.get_protocol().when_lost = partial(self.all_open.closed, self)


class SocketProtocol(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket, quiet, and with a way to cut the connection of a client that does not read."""

    when_lost: Callable[[], None] | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.logger = self.conn.logger = _log

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self.when_lost is not None:
            self.when_lost()

    def handle_connect(self, event: Any) -> None:
        super().handle_connect(event)
        if not self.handshake_complete:  # it may have been refused at once
            self.scope["extensions"][ABORT] = self.transport.abort  # type: ignore[assignment]

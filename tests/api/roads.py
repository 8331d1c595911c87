"""Connections to an application in this process, spoken to in bytes: with the short way of heartbeats, or without."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from hub.api.pipeline import RequestPipeline
from hub.api.serving.upgrades import UpgradingProtocol
from tests.world import PATIENCE_S, eventually

_CHANCE = re.compile(rb'"traceId":"[0-9a-f]{16}"|"nextBeatMs":[0-9]+')


class Shortcut(UpgradingProtocol):
    """The protocol that the server uses, with the short way of heartbeats."""


class Ordinary(UpgradingProtocol):
    """The protocol without the short way: a heartbeat is handled like every other request."""

    serving = None


class Transport:
    """A connection that keeps what is written and whether it was closed."""

    def __init__(self) -> None:
        self.written = b""
        self.closed = False

    def write(self, data: bytes) -> None:
        if not self.closed:
            self.written += data

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 5) if name in ("peername", "sockname") else default

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        """Do nothing: this transport has no flow control."""

    resume_reading = pause_reading


class Road:
    """Connections of one kind to an application."""

    def __init__(self, app: RequestPipeline, kind: type[UpgradingProtocol]) -> None:
        self._kind = kind
        self._config = uvicorn.Config(app, log_config=None, ws="none", proxy_headers=False, lifespan="off")  # type: ignore[arg-type]
        self._config.load()
        self._state = ServerState()

    async def exchange(self, pieces: list[bytes]) -> tuple[list[Any], bool]:
        """Return the answers to what is sent on a connection in these pieces, and whether it was closed."""
        transport = Transport()
        protocol = self._kind(config=self._config, server_state=self._state, app_state={})
        protocol.connection_made(transport)
        for piece in pieces:
            if not transport.closed:
                protocol.data_received(piece)
                await asyncio.sleep(0)
        await eventually(lambda: transport.closed or _rests(protocol), pause_s=0.0005)
        closed = transport.closed
        protocol.connection_lost(None)
        if self._state.tasks:
            await asyncio.wait(self._state.tasks, timeout=PATIENCE_S)
        return _answers(transport.written), closed


def _rests(protocol: UpgradingProtocol) -> bool:
    """Return whether every answer was written, so that the next bytes must come from the client."""
    if protocol.transport._parts:  # type: ignore[attr-defined]
        return False
    cycle = protocol.cycle
    if cycle is None or (cycle.response_complete and not protocol.pipeline):
        return True
    return bool(cycle.more_body and cycle.message_event._waiters and not protocol.pipeline)


def _answers(written: bytes) -> list[Any]:
    found = []
    while written:
        head, blank, written = written.partition(b"\r\n\r\n")
        assert blank, head
        status, *lines = head.split(b"\r\n")
        headers = sorted(line.lower() for line in lines)
        if status.split()[1] == b"100":
            continue  # may be left out when the body is there already
        length = int(next(line for line in headers if line.startswith(b"content-length: "))[16:])
        if not written or written.startswith(b"HTTP/"):
            length = 0  # only the head was asked for
        body, written = written[:length], written[length:]
        body = _CHANCE.sub(b'"x":0', body)
        found.append((status, [line for line in headers if b"content-length" not in line], json.loads(body or b"null")))
    return found

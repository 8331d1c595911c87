"""A transport for many small answers: it makes one system call for each, and ends a connection also where the client
does not read."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from typing import Any

UNREAD_S = 20.0  # for a client to take anything of what the hub has still to send when it closes the connection
RATE = 65_536  # bytes a second that the client must take of the rest
_AT_ONCE = struct.pack("ii", 1, 0)  # SO_LINGER on, with 0 seconds: unsent bytes are dropped on close
_UNTAKEN_MS = getattr(socket, "TCP_USER_TIMEOUT", None)  # None where the system does not have this option


class JoinedWrites:
    """A transport that joins all writes of one turn of the loop into one. uvicorn writes head and body of an answer
    apart, and a system call costs more than an endpoint.

    `close` sends what is left, but only for a bounded time when the client does not take it: the system would wait for
    ever.
    """

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []
        self._giving_up: asyncio.TimerHandle | None = None
        self._lost = False

    def write(self, data: bytes) -> None:
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)

    def _flush(self) -> None:
        parts, self._parts = self._parts, []
        if parts and not self._transport.is_closing():
            self._transport.write(b"".join(parts))

    def close(self) -> None:
        if self._lost:
            return
        self._flush()
        expect_to_be_read(self._transport)
        left = self._transport.get_write_buffer_size()
        self._transport.close()
        if left and self._giving_up is None:
            self._giving_up = self._loop.call_later(UNREAD_S + left / RATE, cut, self._transport)

    def abort(self) -> None:
        self._parts.clear()
        if not self._lost:
            cut(self._transport)

    def lost(self) -> None:
        """Note that the connection is over. Its file descriptor may belong to another connection by now, so it must not
        be touched any more."""
        self._lost = True
        if self._giving_up is not None:
            self._giving_up.cancel()

    def is_closing(self) -> bool:
        closing: bool = self._transport.is_closing()
        return closing

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)


def cut(transport: Any) -> None:
    """End a connection and drop all bytes that are not sent yet. Without that the system would keep these bytes for a
    client that does not read."""
    _tell_system(transport, socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    transport.abort()


def expect_to_be_read(transport: Any) -> None:
    """Make the system end this connection when the client has taken nothing for `UNREAD_S` seconds, also after the hub
    has closed it. Else the system keeps the unsent bytes, some hundred kilobytes, for as long as the client stays
    connected."""
    if _UNTAKEN_MS is not None:
        _tell_system(transport, socket.IPPROTO_TCP, _UNTAKEN_MS, int(UNREAD_S * 1000))


def _tell_system(transport: Any, level: int, option: int, value: int | bytes) -> None:
    if (wire := transport.get_extra_info("socket")) is not None:
        with suppress(OSError):  # the socket is not TCP, or is closed
            wire.setsockopt(level, option, value)

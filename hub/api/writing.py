"""A transport for many small answers: one system call for each, and an end also where nobody reads."""

from __future__ import annotations

import asyncio
from typing import Any

UNREAD_S = 20.0  # for a client to begin reading what is left when its connection is closed
RATE = 65_536  # bytes a second at which it must read that


class JoinedWrites:
    """Sends what is written in one turn of the loop in one piece: the server writes head and body of an answer apart,
    and a system call costs more than an endpoint.

    Closed, it sends what is left, and gives up on a client that does not take it: the system would wait for ever.
    """

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []
        self._giving_up: asyncio.TimerHandle | None = None

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
        left = self._transport.get_write_buffer_size()
        self._transport.close()
        if left and self._giving_up is None:
            self._giving_up = self._loop.call_later(UNREAD_S + left / RATE, self._transport.abort)

    def abort(self) -> None:
        self._parts.clear()
        self._transport.abort()

    def lost(self) -> None:
        """The connection is over."""
        if self._giving_up is not None:
            self._giving_up.cancel()

    def is_closing(self) -> bool:
        closing: bool = self._transport.is_closing()
        return closing

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

"""What the hub uses of uvicorn that uvicorn does not promise to keep: all of it is imported from here.

A subclass of one of these may break with any release of uvicorn, which is therefore pinned to one minor version;
`tests/test_private_parts.py` says of each name that is used what would break without it.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.supervisors import Multiprocess

__all__ = [
    "HIGH_WATER_LIMIT",
    "Cycle",
    "HttpToolsProtocol",
    "Multiprocess",
    "WebSocketsSansIOProtocol",
]


class Cycle(Protocol):
    """A request and its answer, as uvicorn keeps them: what the hub reads and writes of `RequestResponseCycle`."""

    scope: Any
    transport: Any
    body: bytes
    keep_alive: bool
    more_body: bool
    disconnected: bool
    response_started: bool
    response_complete: bool
    message_event: asyncio.Event

    def on_response(self) -> None:
        """Go on with the next request of the connection."""

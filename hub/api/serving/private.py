"""The parts of uvicorn that uvicorn does not promise to keep: the hub imports all of them from this module.

A subclass of one of these classes may break with any release of uvicorn, so uvicorn is pinned to one minor version.
`tests/test_private_parts.py` checks each name that the hub uses, and says what would break without the name.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.supervisors import Multiprocess

__all__ = ["HIGH_WATER_LIMIT", "Cycle", "HttpToolsProtocol", "Multiprocess", "WebSocketsSansIOProtocol"]


class Cycle(Protocol):
    """A request and its answer in uvicorn: the members of `RequestResponseCycle` that the hub reads and writes."""

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
        """Tell uvicorn that the answer is complete, so that it begins the next request of the connection."""

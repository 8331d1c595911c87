"""TLS handshakes: counted as connections from the moment the system accepts them, and bounded in time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from ssl import SSLContext
from typing import Any, cast

import uvloop

from hub.api.serving.protocol import HubProtocol

HANDSHAKE_S = 5.0  # for a TLS handshake, and for the exchange that ends TLS
Made = Callable[[], asyncio.Protocol]


class HubLoop(uvloop.Loop):
    """An event loop whose TLS servers hand over a connection as soon as it is accepted, before its handshake has
    ended."""

    async def create_server(self, protocol_factory: Made, *args: Any, ssl: Any = None, **options: Any) -> Any:  # type: ignore[override]
        """Create a server as uvloop does; with `ssl` each connection begins as a `Handshake`."""
        if ssl is not None:
            protocol_factory = partial(Handshake, self, ssl, protocol_factory)
        return await super().create_server(protocol_factory, *args, **options)


class Handshake(asyncio.Protocol):
    """The protocol of a connection during its TLS handshake; afterwards the protocol that `made` returns takes over."""

    def __init__(self, loop: asyncio.AbstractEventLoop, context: SSLContext, made: Made) -> None:
        self._loop, self._context, self._made = loop, context, made
        self._all_open = HubProtocol.all_open

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._plain = cast(asyncio.Transport, transport)
        self._since = self._loop.time()
        self._late = self._loop.call_later(HANDSHAKE_S, self._plain.abort)
        peer = transport.get_extra_info("peername")
        if not self._all_open.opened(self, str(peer[0]) if peer else ""):
            self._plain.abort()  # no answer can be read before the handshake

    def connection_lost(self, exc: Exception | None) -> None:
        self._late.cancel()
        self._all_open.closed(self)

    def waits_since(self) -> float:
        """Return the time on the loop's clock at which the connection was accepted, for `Connections`: since then the
        hub has waited for the client."""
        return self._since

    def let_go(self) -> None:
        """Close the connection at once, for `Connections`."""
        self._plain.abort()

    def data_received(self, data: bytes) -> None:
        """Begin the TLS handshake when its first bytes arrive. Later bytes go to the TLS protocol and not here."""
        self._plain.pause_reading()
        self._task = self._loop.create_task(self._shake_hands())
        # `start_tls` sets the TLS protocol and resumes reading in two callbacks. `_hand_over` gives these bytes to
        # TLS in the same turn of the loop, before the loop reads anything more.
        self._loop.call_soon(self._loop.call_soon, self._hand_over, data)

    async def _shake_hands(self) -> None:
        try:
            transport = await self._loop.start_tls(
                self._plain, self, self._context, server_side=True,
                ssl_handshake_timeout=HANDSHAKE_S, ssl_shutdown_timeout=HANDSHAKE_S,
            )  # fmt: skip
        except OSError:
            self._plain.abort()
        finally:
            self.connection_lost(None)
        if self._plain.is_closing():
            return
        protocol = self._made()
        cast(asyncio.Transport, transport).set_protocol(protocol)
        protocol.connection_made(cast(asyncio.Transport, transport))

    def _hand_over(self, data: bytes) -> None:
        tls = cast(asyncio.BufferedProtocol, self._plain.get_protocol())
        while data and not self._plain.is_closing():
            into = memoryview(tls.get_buffer(len(data))).cast("B")
            size = min(len(into), len(data))
            into[:size] = data[:size]
            tls.buffer_updated(size)
            data = data[size:]

"""A connection to Redis that can die without a word, as they do behind a firewall or when a machine is gone."""

from __future__ import annotations

import asyncio
from contextlib import suppress


class Wire:
    """A proxy between a hub and Redis whose connections can die without either end being told."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._pumps: set[asyncio.Task[None]] = set()
        self._kept: list[asyncio.StreamWriter] = []

    async def start(self) -> str:
        """Return where Redis is reached by it."""
        self.server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        return f"redis://127.0.0.1:{self.server.sockets[0].getsockname()[1]}"

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._port)
        self._kept += [writer, back]
        self._pumps |= {asyncio.create_task(self._pump(*way)) for way in ((reader, back), (there, writer))}

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while some := await reader.read(65536):
                writer.write(some)
                await writer.drain()
        writer.close()

    async def die(self) -> None:
        """Nothing gets through what is connected now; what connects later is well."""
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)
        self._pumps.clear()

    async def stop_connections(self) -> None:
        """Close all connections at both ends."""
        await self.die()
        for writer in self._kept:
            writer.close()
        self._kept.clear()

    async def stop(self) -> None:
        await self.stop_connections()
        self.server.close()
        await self.server.wait_closed()

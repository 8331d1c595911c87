"""The wire between one hub and Redis: commands can be held back, carried out twice, and go to another server."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from tests.machine.flight.resp import end_of, words
from tests.machine.flight.servers import Server

_RUN = (b"EVALSHA", b"FCALL", b"EVAL")
_RUN_ID = re.compile(rb"run_id:[0-9a-f]{40}")
_REPLICATION = re.compile(rb"master_replid:[0-9a-f]{40}")


class Wire:
    """All connections of one hub. `server` says where a new one leads to, None while no server answers."""

    def __init__(self, path: str, server: Callable[[], Server | None]) -> None:
        self.path, self.server = path, server
        self.links: set[Link] = set()
        self.held = False  # all that comes from the hub waits
        self.twice = False  # the next change is carried out, and its answer is lost with the connection
        self.stall_after = -1  # scripts from now; the connection of the one after them is held
        self.moved = 0  # counts every step

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_unix_server(lambda: Link(self, self.server()), self.path)

    async def stop(self) -> None:
        self.cut()
        self._listener.close()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._listener.wait_closed(), 1)

    def cut(self) -> None:
        """Every connection ends; what was not sent on is lost with it."""
        for link in list(self.links):
            link.close()

    def hold(self) -> None:
        self.held = True

    def release(self) -> None:
        """Let held commands go on; on a connection to a server that is no longer there it fails instead."""
        self.held, self.stall_after = False, -1
        for link in list(self.links):
            link.stalled = False
            if link.server is not self.server() or link.starts != link.server.starts:
                link.close()
            else:
                link.pump()

    @property
    def waiting(self) -> int:
        """Commands that are held back."""
        return sum(len(link.queue) for link in self.links)

    @property
    def busy(self) -> bool:
        """Whether an answer of the server is awaited, or a connection to it is being made."""
        return any(link.asked or link.connecting for link in self.links)


class Link(asyncio.Protocol):
    """One connection of a hub, and the one to the server behind it."""

    def __init__(self, wire: Wire, server: Server | None) -> None:
        self.wire, self.server = wire, server
        self.starts = server.starts if server else 0
        self.queue: deque[bytes] = deque()
        self.asked: deque[bytes] = deque()
        self.stalled = self.passing = self.connecting = False
        self._said, self._heard = bytearray(), bytearray()
        self._hub: asyncio.Transport | None = None
        self._there: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._hub = transport
        self.wire.links.add(self)
        if self.server is None:
            self.close()
        else:
            self.connecting = True
            self._task = asyncio.ensure_future(self._reach(self.server.socket))

    async def _reach(self, path: str) -> None:
        loop = asyncio.get_running_loop()
        try:
            self._there, _ = await loop.create_unix_connection(lambda: _Back(self), path)
        finally:
            self.connecting = False
        if self not in self.wire.links:
            self._there.abort()  # cut meanwhile
        self.pump()

    def data_received(self, data: bytes) -> None:
        self.wire.moved += 1
        self._said += data
        at = 0
        while (end := end_of(self._said, at)) > 0:
            self.queue.append(bytes(self._said[at:end]))
            at = end
            if end == len(self._said):
                break
        del self._said[:at]
        self.pump()

    def pump(self) -> None:
        """Send on what may be sent."""
        wire = self.wire
        while self._there and self.queue and not (wire.held or self.stalled):
            name = words(self.queue[0])[0].upper()
            if wire.stall_after == 0 and name in _RUN:
                wire.stall_after, self.stalled = -1, True
                return
            wire.stall_after -= wire.stall_after > 0 and name in _RUN
            command = self.queue.popleft()
            self.passing |= b"SUBSCRIBE" in name
            self.asked.append(name)
            self._there.write(command)
            wire.moved += 1

    def answered(self, data: bytes) -> None:
        self.wire.moved += 1
        if self.passing:
            self.asked.clear()
            self._write(data)
            return
        self._heard += data
        at = 0
        while at < len(self._heard) and (end := end_of(self._heard, at)) > 0:
            answer, at = bytes(self._heard[at:end]), end
            name = self.asked.popleft() if self.asked else b""
            if self.wire.twice and name in _RUN:
                self.wire.twice = False
                self.close()
                return
            self._write(self._as_shown(answer) if name == b"INFO" else answer)
        del self._heard[:at]

    def _as_shown(self, answer: bytes) -> bytes:
        assert self.server
        run, replication = self.server.ids
        answer = _RUN_ID.sub(b"run_id:" + run, answer)
        return _REPLICATION.sub(b"master_replid:" + replication, answer)

    def _write(self, data: bytes) -> None:
        if self._hub and not self._hub.is_closing():
            self._hub.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.close()

    def close(self) -> None:
        self.wire.links.discard(self)
        self.wire.moved += 1
        self.queue.clear()
        self.asked.clear()
        for transport in (self._hub, self._there):
            if transport:
                transport.abort()


class _Back(asyncio.Protocol):
    """The answers."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def data_received(self, data: bytes) -> None:
        self._link.answered(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._link.close()

"""Bytes of an upgraded connection, passed on as they are in both directions while the lease holds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from hub.api.serving.writing import cut
from hub.errors import HubError
from hub.gate.leasing import GateLease, notice_death
from hub.retries import now_s

HIGH_WATER: Final = 65_536  # bytes that may wait for one side to read; then the other side is not read either
CLOSE_S: Final = 1.0  # for a slot to close its side after its caller has left
GOODBYE_S: Final = 5.0  # for a caller to read why it was cut
GOING_AWAY, INTERNAL_ERROR = 1001, 1011  # close codes of RFC 6455
_REASON_BYTES: Final = 123
_LONGER: Final = {126: 2, 127: 8}  # 7-bit length of a frame -> bytes of the length that follows


class FrameEdges:
    """The places between frames in the bytes of one direction. Only heads of frames are read; payloads are skipped."""

    def __init__(self) -> None:
        self.closing = False  # a close frame was among them
        self._left, self._head = 0, b""

    @property
    def at_edge(self) -> bool:
        """Return whether the last frame is complete, so that another may follow."""
        return not self._left and not self._head

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        at, end = 0, len(data)
        while at < end:
            if self._left:
                step = min(self._left, end - at)
                self._left, at = self._left - step, at + step
                continue
            length = _head_length(self._head)
            missing = length - len(self._head)
            self._head, at = self._head + data[at : at + missing], at + missing
            if len(self._head) == length == _head_length(self._head):
                self.closing = self.closing or self._head[0] & 0x0F == 8
                more = _LONGER.get(short := self._head[1] & 0x7F, 0)
                self._left = int.from_bytes(self._head[2 : 2 + more]) if more else short
                self._head = b""


def _head_length(head: bytes) -> int:
    if len(head) < 2:
        return 2
    return 2 + _LONGER.get(head[1] & 0x7F, 0) + (4 if head[1] & 0x80 else 0)


def close_frame(code: int, reason: str) -> bytes:
    """Return the close frame of a server; a reason that is too long is cut."""
    text = reason.encode()[:_REASON_BYTES].decode(errors="ignore").encode()
    return bytes((0x88, len(text) + 2)) + code.to_bytes(2) + text


class PipeEnd(asyncio.Protocol):
    """One side of a connection through the gate. What arrives before it has a `Pipe` waits in `early`."""

    transport: asyncio.Transport
    other: PipeEnd

    def __init__(self, when_lost: Callable[[], object] = lambda: None) -> None:
        self.pipe: Pipe | None = None
        self.full = False  # more waits for this side to read than may wait
        self.failed: Exception | None = None  # what ended the connection from here
        self._when_lost = when_lost
        self.early = bytearray()
        self.arrived = asyncio.Event()
        self.over = asyncio.get_running_loop().create_future()  # its peer has closed, or the connection is lost

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self.transport.set_write_buffer_limits(HIGH_WATER)
        notice_death(transport)

    def data_received(self, data: bytes) -> None:
        if self.pipe is not None:
            self.pipe.take(self, data)
            return
        self.early += data
        self.arrived.set()
        if len(self.early) > HIGH_WATER:
            self.transport.pause_reading()

    def pause_writing(self) -> None:
        self.full = True
        if self.pipe is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        self.full = False
        if self.pipe is not None and not self.pipe.held:
            self.other.transport.resume_reading()

    def eof_received(self) -> bool:
        self.end()
        return self.transport.can_write_eof()  # then the pipe closes both sides in its own order; TLS closes at once

    def connection_lost(self, exc: Exception | None) -> None:
        self.failed = exc
        self.end()
        self._when_lost()

    def end(self) -> None:
        """Note that nothing more comes from this side."""
        self.arrived.set()
        if not self.over.done():
            self.over.set_result(None)


class Pipe:
    """Two connections, that of the caller and that to its slot, joined while the lease holds.

    After a gap in the `Pulse` the first bytes are held, and neither side is read, until the hub has confirmed the
    lease.
    """

    def __init__(self, lease: GateLease, caller: PipeEnd, slot: PipeEnd) -> None:
        self.held: list[tuple[PipeEnd, bytes]] = []
        self._lease, self._edges, self._caller, self._slot = lease, FrameEdges(), caller, slot
        self._confirming: asyncio.Task[None] | None = None
        self._closed = False
        caller.other, slot.other = slot, caller
        for end in (caller, slot):
            end.pipe = self
        for end in (caller, slot):
            if end.early:
                self.take(end, bytes(end.early))
        if not self.held:
            self._read_on()

    def take(self, end: PipeEnd, data: bytes) -> None:
        """Pass bytes from one side on to the other, or hold them while the lease is in doubt."""
        if self._closed:
            return
        if not self.held and self._lease.holds():
            self._pass(end, data)
            return
        self.held.append((end, data))
        for each in (self._caller, self._slot):
            each.transport.pause_reading()
        if self._confirming is None:
            self._confirming = asyncio.create_task(self._confirm())

    def _pass(self, end: PipeEnd, data: bytes) -> None:
        self._lease.used_s = now_s()
        if end is self._slot:
            self._edges.feed(data)
        if not end.other.transport.is_closing():
            end.other.transport.write(data)

    async def _confirm(self) -> None:
        try:
            await self._lease.confirm()
        except HubError:
            self._slot.end()
            return
        held, self.held, self._confirming = self.held, [], None
        for end, data in held:
            self._pass(end, data)
        self._read_on()

    def _read_on(self) -> None:
        for each in (self._caller, self._slot):
            if not each.other.full:
                each.transport.resume_reading()

    async def run(self, idle_s: float) -> str:
        """Return why the connection ended, once one side has closed it, the lease is lost, or no byte has passed for
        `idle_s` (0: never). Nothing reaches the slot after that."""
        lease, slot = self._lease, self._slot
        try:
            if await lease.was_idle(idle_s, self._caller.over, slot.over):
                return self._close(f"nothing was sent for {idle_s:g} s")
        except asyncio.CancelledError:
            self._close(lease.why_lost() or "the gate stops", INTERNAL_ERROR if lease.why_lost() else GOING_AWAY)
            raise
        if why := lease.why_lost():
            return self._close(why)
        if not self._caller.over.done():
            unsure = isinstance(slot.failed, ConnectionAbortedError)  # of `LeasedSocket`
            return self._close(str(slot.failed) if unsure else f"slot {lease.slot.id} closed its connection")
        if slot.transport.can_write_eof() and not slot.over.done():
            slot.transport.write_eof()  # the slot closes its side once it has read everything: none is left for later
            await asyncio.wait([slot.over], timeout=CLOSE_S)
        self._close("")
        return "the caller closed it"

    def _close(self, reason: str, code: int = INTERNAL_ERROR) -> str:
        """Cut the connection to the slot, tell the caller why, and return the reason."""
        self._closed = True
        if self._confirming is not None:
            self._confirming.cancel()
        cut(self._slot.transport)
        caller, over = self._caller.transport, self._caller.over
        asyncio.get_running_loop().call_later(GOODBYE_S, caller.abort)
        if self._edges.at_edge and not self._edges.closing and not over.done():
            caller.write(close_frame(code, reason))
        if over.done() or not caller.can_write_eof():
            caller.close()
        else:  # the system would drop the last words if what the caller has sent meanwhile were not read
            with suppress(OSError):  # of a caller that has reset its connection; it is not read behind a slow slot
                caller.write_eof()
            caller.resume_reading()
            over.add_done_callback(lambda _: caller.close())
        return reason

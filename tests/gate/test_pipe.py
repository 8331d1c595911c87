"""What waits in a pipe for a side that does not read is bounded, and its end is told to a caller that has left."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from hub.gate.pipe import HIGH_WATER, Pipe, PipeEnd
from tests.world import eventually

PIECE = b"y" * HIGH_WATER
MOST = 4 * HIGH_WATER


class Lent:
    """A lease that holds unless it is in doubt, and is confirmed when asked."""

    used_s = 0.0

    def __init__(self) -> None:
        self.doubt = False

    def holds(self) -> bool:
        return not self.doubt

    async def confirm(self) -> None:
        self.doubt = False

    async def was_idle(self, _: float, *ends: asyncio.Future[Any]) -> bool:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        return False

    def why_lost(self) -> str:
        return "the hub ended it"


class Wire:
    """A transport whose other side reads nothing."""

    def __init__(self, end: PipeEnd) -> None:
        self.end, self.waiting, self.reading, self.gone = end, 0, True, False
        self._socket = socket.socket()
        end.connection_made(self)  # type: ignore[arg-type]

    def get_extra_info(self, _: str) -> socket.socket:
        return self._socket

    def set_write_buffer_limits(self, high: int) -> None:
        self._high = high

    def write(self, data: bytes) -> None:
        was, self.waiting = self.waiting, self.waiting + len(data)
        if was <= self._high < self.waiting:
            self.end.pause_writing()

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def pour(self) -> None:
        """Say as much as is read, and 100 pieces at most."""
        for _ in range(100):
            if self.reading:
                self.end.data_received(PIECE)

    def read(self) -> None:
        """Take all that waits."""
        self.waiting = 0
        self.end.resume_writing()

    def is_closing(self) -> bool:
        return self.gone

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        raise OSError("Transport endpoint is not connected")

    def abort(self) -> None:
        self.gone = True

    close = abort


@pytest.fixture
async def ends():
    caller, slot = Wire(PipeEnd()), Wire(PipeEnd())
    yield caller, slot
    for each in (caller, slot):
        each.get_extra_info("socket").close()


async def test_what_a_caller_said_early_does_not_have_more_read_for_a_slot_that_does_not_read(ends):
    caller, slot = ends
    caller.pour()
    assert not caller.reading
    Pipe(Lent(), caller.end, slot.end)
    caller.pour()
    assert HIGH_WATER < slot.waiting <= MOST
    slot.read()
    assert caller.reading


async def test_a_lease_that_is_confirmed_does_not_have_more_read_for_a_slot_that_does_not_read(ends):
    caller, slot = ends
    lease = Lent()
    Pipe(lease, caller.end, slot.end)
    caller.pour()
    assert not caller.reading
    for _ in range(20):
        lease.doubt = True
        slot.end.data_received(b"z")
        assert not slot.reading
        await eventually(lambda: slot.reading, pause_s=0)
        caller.pour()
    assert slot.waiting <= MOST
    assert caller.waiting == 20, "what the slot says is passed on all the same"


async def test_a_slot_that_reads_while_a_lease_is_in_doubt_has_its_caller_read_once_it_is_confirmed(ends):
    caller, slot = ends
    lease = Lent()
    Pipe(lease, caller.end, slot.end)
    caller.pour()
    lease.doubt = True
    slot.end.data_received(b"z")
    slot.read()
    assert not caller.reading
    await eventually(lambda: slot.reading, pause_s=0)
    assert caller.reading


async def test_a_caller_that_has_reset_its_connection_unread_raises_nothing_at_the_end(ends, monkeypatch):
    monkeypatch.setattr("hub.gate.pipe.cut", lambda transport: transport.abort())
    caller, slot = ends
    running = asyncio.ensure_future(Pipe(Lent(), caller.end, slot.end).run(0))
    slot.end.connection_lost(None)
    assert await running == "the hub ended it"
    assert (slot.gone, caller.reading) == (True, True)

"""The slots that an agent holds: each is kept by a task of its own, from the borrow until it is returned or lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Unpack

from hub.client import HubClient, Slot
from hub.client.waiting import BorrowOptions
from hub.errors import HubError, LeaseLost


class HeldSlots:
    """The slots that are held at present, `most` at a time. `on_lost` is called with a sentence for each lease that the
    hub has ended, or that could not be renewed."""

    def __init__(self, client: HubClient, most: int) -> None:
        self._client = client
        self._most = most
        self._held: dict[str, tuple[Slot, asyncio.Event, asyncio.Task[None]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._lost: list[str] = []
        self.on_lost: Callable[[str], object] = lambda sentence: None

    @property
    def slots(self) -> list[Slot]:
        """Return the slots that are held, oldest first."""
        return [slot for slot, _, _ in self._held.values()]

    def losses(self) -> list[str]:
        """Return a sentence for each lease that was lost since the last call."""
        lost, self._lost = self._lost, []
        return lost

    async def borrow(self, label: str, **options: Unpack[BorrowOptions]) -> Slot:
        """Borrow a slot, and hold it until `give_back` or `close`. Raises what `HubClient.acquire` raises, and a
        `HubError` beyond the most slots. When the call is cancelled, so is the borrow."""
        if len(self._tasks) >= self._most:
            mine = ", ".join(self._held) or "none yet: other calls of borrow_slot are waiting"
            raise HubError(f"You may hold {self._most} at a time; you hold {mine}. Return one with return_slot first.")
        got: asyncio.Future[Slot] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._keep(label, options, got))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            return await got
        except asyncio.CancelledError:
            task.cancel()
            raise

    async def _keep(self, label: str, options: BorrowOptions, got: asyncio.Future[Slot]) -> None:
        stop, task = asyncio.Event(), asyncio.current_task()
        held: tuple[Slot, asyncio.Event, asyncio.Task[None]] | None = None
        assert task is not None
        try:
            async with self._client.borrow(label, **options) as slot:
                if not got.done():  # else the call was cancelled
                    held = self._held[slot.id] = slot, stop, task
                    got.set_result(slot)
                    await stop.wait()
        except HubError as error:
            if held is None and not got.done():
                got.set_exception(error)
            elif isinstance(error, LeaseLost):
                self._note_lost(f"{str(error)[:1].upper()}{str(error)[1:].rstrip('.')}. Stop using it now.")
        finally:
            if held is not None and self._held.get(held[0].id) is held:
                del self._held[held[0].id]
            if not got.done():
                got.cancel()

    def _note_lost(self, sentence: str) -> None:
        self._lost.append(sentence)
        self.on_lost(sentence)

    def get(self, slot_id: str) -> Slot:
        """Return a slot that is held; raises a `HubError` for any other."""
        if (found := self._held.get(slot_id)) is None:
            raise HubError(f"You do not hold a slot {slot_id!r}; you hold {', '.join(self._held) or 'none'}.")
        return found[0]

    async def give_back(self, slot_id: str) -> Slot:
        """Give a slot back. While no hub answers that goes on in the background: then `owed` of the slot is True."""
        slot = self.get(slot_id)
        _, stop, task = self._held[slot_id]
        stop.set()
        await asyncio.wait([task])
        return slot

    async def close(self) -> None:
        """Give everything back, and give up the borrows that wait. Safe to repeat."""
        for _, stop, _ in self._held.values():
            stop.set()
        holding = {task for _, _, task in self._held.values()}
        for task in self._tasks - holding:
            if not task.cancelling():  # else its call was cancelled, and it is giving its place up
                task.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks))

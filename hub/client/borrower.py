"""`HubClient`: borrowing slots and looking at a hub, for asyncio; `make twins` writes `SyncHubClient` from it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Generic, Self, Unpack

import httpx

from hub.client import calls
from hub.client.backlog import CLOSE_S, backlog_of
from hub.client.bundle import H, HeldBundle, Part, read_parts, slots_of
from hub.client.calls import LeaseFilters
from hub.client.exchange import RetryPolicy
from hub.client.guard import Guard
from hub.client.options import spelt_out
from hub.client.slot import NOT_RENEWED, Slot, keep, renew, tell_use
from hub.client.transport import AsyncTransport, Secret
from hub.client.using import OnEnding
from hub.client.waiting import (
    BORROW_DEFAULTS,
    BUNDLE_DEFAULTS,
    BorrowCall,
    BorrowOptions,
    BundleCall,
    BundleOptions,
    borrow,
)
from hub.client.watch import Watch
from hub.errors import HubUnavailable, LeaseLost

SECRET_NAMES = ("HUB_RUNNER_SECRET", "HUB_TOKEN")  # the first that is set is shown


class Bundle(HeldBundle):
    """The slots that `HubClient.borrow_all` has lent: `slots` in the order of the parts, `id`, `together` and `owed`.

    Each of `slots` is a slot like that of `borrow`, and may be given back alone.
    """

    async def give_back(self) -> bool:
        """Give all slots back before the end of the block; return False if all leases had ended before."""
        returned: bool = await self._give_back(self)
        return returned


class HubClient:
    """A borrower of slots, for asyncio; made and used inside one event loop, by any number of its tasks.

    `url` defaults to `HUB_URL` (or http://127.0.0.1:8080), and `secret` to `HUB_RUNNER_SECRET`, else to `HUB_TOKEN`, a
    token of a user that may borrow; a callable is called for that of each request. A call is repeated for `timeout`
    seconds while no hub answers or the hub asks to wait. Each attempt may take `attempt_timeout` seconds, and up to 30
    more in the queue. After that, or when the hub refuses for good, the call raises a `hub.errors.HubError`:
    `HubUnavailable` when no hub answered, `Unauthorized` when the secret is wrong, `NotHolder` when the lease is
    another caller's. Close the client with
    `await client.close()` or `async with`.
    """

    def __init__(
        self,
        url: str | None = None,
        secret: str | Callable[[], str] | None = None,
        *,
        timeout: float = 10.0,
        attempt_timeout: float = 15.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._http = AsyncTransport(url, Secret(secret, *SECRET_NAMES), transport)
        self._backlog = backlog_of(self._http)
        self._policy = RetryPolicy(trouble_s=timeout, attempt_s=attempt_timeout)
        self.watch = Watch(self._http)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections. A slot that is still held stays lent until its lease ends.

        A slot whose return has failed so far is given back in the background, for as long as its lease lasts.
        """
        await self.watch.close()
        if self._backlog.end_with_client():
            await asyncio.to_thread(self._backlog.close, CLOSE_S)
        await self._http.close()

    @spelt_out(BorrowOptions, BORROW_DEFAULTS)
    def borrow(
        self,
        label: str = "",
        *,
        on_ending: OnEnding | None = None,
        # threads: on_lost: OnLost | None = None,
        **options: Unpack[BorrowOptions],
    ) -> Borrowing[Slot]:
        """`async with client.borrow("gpu:a100") as slot:` - hold a slot of `label` while the block runs.

        `client.borrow("gpu", where="vram >= 40", prefer=["repo-42"], any_of=["cpu:large"])` chooses by attributes.
        Entering raises what `acquire` raises. The lease is renewed in the background. When it cannot be renewed in time
        or the hub has ended it, the task is cancelled inside the block before the hub can lend the slot again, and the
        `async with` raises `LeaseLost`. A block that does not reach an `await` cannot be stopped; it may ask
        `slot.check()`. Leaving gives the slot back. While no hub can be reached, giving back goes on in the background
        until the lease has ended, also after the client was closed; the exit of the program waits up to five seconds.
        `on_ending` is told before the lease ends by a rule of its pool, as with `Slot.on_ending`.
        """
        wanted = BorrowCall(label, options, renews=True)

        def acquire() -> Awaitable[Slot]:  # threads: def acquire() -> Slot:
            return self._http.run(borrow(wanted, self._policy, self._backlog))

        # threads: return SyncBorrowing(self, acquire, on_ending, on_lost)
        return Borrowing(self, acquire, on_ending)  # asyncio

    @spelt_out(BundleOptions, BUNDLE_DEFAULTS)
    def borrow_all(
        self,
        parts: Sequence[Part],
        *,
        same_node: bool = False,
        together: bool = False,
        # threads: on_lost: OnLost | None = None,
        **options: Unpack[BundleOptions],
    ) -> Borrowing[Bundle]:
        """`async with client.borrow_all([("gpu:a100", 4)]) as bundle:` - hold several slots, or none, in the block.

        A part is a label, a pair `(label, count)`, or a dict with `label`, `where` and `count`: 16 slots at most in
        all. `same_node` takes all from one node. Nothing is held while the call waits. With `together` the hub ends all
        leases as soon as one is lost. Each slot is held as that of `borrow` is:
        the first that is lost ends the block. Leaving gives all back by one call.
        Where fewer slots are published than are wanted, the call raises `NoSuchPool` at once, unless `wait_for_pool`
        is True.
        """
        made = partial(Bundle, self.give_back)
        wanted = BundleCall(read_parts(parts), made, same_node, together, options)

        def acquire() -> Awaitable[Bundle]:  # threads: def acquire() -> Bundle:
            return self._http.run(borrow(wanted, self._policy, self._backlog))

        # threads: return SyncBorrowing(self, acquire, None, on_lost)
        return Borrowing(self, acquire)  # asyncio

    @spelt_out(BorrowOptions, BORROW_DEFAULTS)
    async def acquire(self, label: str = "", **options: Unpack[BorrowOptions]) -> Slot:
        """Borrow a slot of `label`; the caller renews its lease and gives it back.

        While no slot is free the call may wait in the queue. Its place there is kept when a hub stops or dies, and
        given up when the wait is cancelled or interrupted. `slot.realm` is the other realm that has lent the slot, if
        any.

        Raises a `NoCapacity` when no slot comes in that time: `WaitedInVain` after the wait, `DeadlineMissed` at once
        when the hub expects a longer wait, `LabelQueueFull` or `RunQueueFull` when too many borrows wait already,
        `Capped` when the label has reached its cap. `error.facts` has the `position` and the `estimatedWaitSeconds`
        of the place in the queue, and a `hint` when no pool serves the label; such a pool may still come. With
        `wait_for_pool=False` a label without a pool raises `NoSuchPool` at once, with the label probably meant.
        A `where` that cannot be read raises `BadWhere`, which has the `position` and what was `expected` there.
        """
        return await self._http.run(borrow(BorrowCall(label, options), self._policy, self._backlog))

    async def renew(self, slot: Slot, ttl: float | None = None) -> None:
        """Make the lease last `ttl` seconds from now (None: as long as asked for before); the hub may grant less.

        Raises `LeaseLost` when the hub has ended the lease. Not needed inside `borrow`.
        """
        await self._http.run(renew(slot, ttl, self._policy))

    async def active(self, slot: Slot) -> None:
        """Tell the hub that the slot is in use, so that no idle rule ends its lease; it is not extended.

        Raises `LeaseLost` when the hub has ended the lease. Inside `borrow`, `slot.active()` does it in the background.
        """
        await self._http.run(tell_use(slot, -1.0, self._policy))

    async def pause(self, slot: Slot, seconds: float) -> None:
        """Let the slot count as used for `seconds`, at most up to the longest hold of its pool; 0 ends that."""
        await self._http.run(tell_use(slot, max(0.0, seconds), self._policy))

    async def give_back(self, slot: Slot | Bundle) -> bool:
        """Give the slot back; return False if its lease had ended before. Safe to repeat: no later lease is touched."""
        return await self._http.run(calls.hand_back(slot, self._policy, self._backlog))

    async def verify(self, slot_id: str, token: str) -> dict[str, Any]:
        """Return `{"slotId", "valid", "reason"?, "ttlSeconds"?}`: whether the slot is now lent under this token."""
        return await self._http.run(calls.read(self._policy, "leases", slot_id, "verify", token=token))

    async def nodes(self, *, limit: int = 100, cursor: str = "0", state: str | None = None) -> dict[str, Any]:
        """Return a page `{"total", "nodes", "next"}`; `state` is alive, suspect, stale or draining, `next` a cursor."""
        return await self._http.run(
            calls.read(self._policy, "nodes", detail=1, limit=limit, cursor=cursor, state=state or None)
        )

    async def node(self, node_id: str) -> dict[str, Any]:
        """Return one node with its slots; raises `NotFound` when no such node is registered."""
        return await self._http.run(calls.read(self._policy, "nodes", node_id))

    async def pools(self, *, limit: int = 100, offset: int = 0) -> dict[str, Any]:
        """Return a page `{"total", "pools", ...}` of the pools, each with its numbers of free and lent slots."""
        return await self._http.run(calls.read(self._policy, "pools", limit=limit, offset=offset))

    async def pool(self, label: str) -> dict[str, Any]:
        """Return one pool; raises `NotFound` when there is none of this label."""
        return await self._http.run(calls.read(self._policy, "pools", label))

    @spelt_out(LeaseFilters)
    async def leases(self, *, limit: int = 100, offset: int = 0, **where: Unpack[LeaseFilters]) -> dict[str, Any]:
        """Return a page `{"total", "leases"}` of the leases, those that end first at the top. Takes at most one filter.

        Each lease is `{"slotId", "label", "pool", "runId", "nodeId", "borrowedAt", "ttlSeconds", "secondsLeft"}`.
        """
        page = calls.read(self._policy, "sessions", headers=calls.NEUTRAL, limit=limit, offset=offset, **where)
        return await self._http.run(page)

    async def lease(self, slot_id: str) -> dict[str, Any]:
        """Return the lease of one slot, as in `leases`; raises `NotFound` when the slot is not lent."""
        return await self._http.run(calls.read(self._policy, "sessions", slot_id, headers=calls.NEUTRAL))

    @spelt_out(LeaseFilters)
    async def sessions(self, *, limit: int = 100, offset: int = 0, **where: Unpack[LeaseFilters]) -> dict[str, Any]:
        """Return the leases in the former names: `{"total", "sessions"}`, each with `browserId` and `labelKey`."""
        return await self._http.run(calls.read(self._policy, "sessions", limit=limit, offset=offset, **where))

    async def session(self, slot_id: str) -> dict[str, Any]:
        """Return the lease of one slot in the former names; raises `NotFound` when the slot is not lent."""
        return await self._http.run(calls.read(self._policy, "sessions", slot_id))

    # threads: def keep(self, slot: Slot, stop: threading.Event) -> LeaseLost | None:
    async def keep(self, slot: Slot) -> LeaseLost | None:  # asyncio
        """Renew `slot` until a final failure, and return its error; None when it was given back. Cancel it to stop."""
        return await self._http.run(keep(slot))  # threads: return kept(self._http, slot, stop)

    async def leave(self, slot: Slot | HeldBundle) -> None:
        """Give the slot back at the end of a block; after a few seconds without success, go on in the background."""
        await self._http.run(calls.leave(slot, self._backlog))

    def leave_late(self, slot: Slot | HeldBundle) -> None:
        """Give back in the background a lost slot that may still be lent, because a renewal had no answer."""
        calls.owe(slot, self._backlog, HubUnavailable("a renewal had no answer"))


class Borrowing(Generic[H]):
    """The `async with` block of one `HubClient.borrow` or `HubClient.borrow_all`."""

    def __init__(
        self, client: HubClient, acquire: Callable[[], Awaitable[H]], on_ending: OnEnding | None = None
    ) -> None:
        self._client = client
        self._acquire = acquire
        self._on_ending = on_ending

    async def __aenter__(self) -> H:
        self._held = await self._acquire()
        self._guard = Guard()
        self._keepers = [self._keeper_of(slot) for slot in slots_of(self._held)]
        return self._held

    def _keeper_of(self, slot: Slot) -> asyncio.Task[LeaseLost | None]:
        if self._on_ending is not None:
            slot.on_ending(self._on_ending)
        keeper = asyncio.create_task(self._client.keep(slot))
        keeper.add_done_callback(partial(self._keeper_ended, slot))
        self._client.watch.add(slot, self._guard.break_off)
        return keeper

    def _keeper_ended(self, slot: Slot, keeper: asyncio.Task[LeaseLost | None]) -> None:
        if keeper.cancelled():
            return
        if (error := keeper.exception()) is not None:  # a bug, but a slot without renewals is lost all the same
            slot.loss(f"renewing broke off with {error!r}")
        if error is not None or keeper.result() is not None:
            self._guard.break_off()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ours = self._guard.close(error)
        if not self._held.is_ours:  # a forked child: the parent holds the slot, renews it and gives it back
            return
        kept = [slot for slot in slots_of(self._held) if not slot.returned]
        # Decided before anything is awaited: the block ran until this moment.
        losses = [slot.loss(NOT_RENEWED) for slot in kept if slot.seconds_left() <= 0]
        for keeper in self._keepers:
            keeper.cancel()
        for slot in slots_of(self._held):
            self._client.watch.remove(slot)
        try:
            if any(slot.revoked or not slot.lost.is_set() for slot in kept):
                await self._client.leave(self._held)
            elif any(slot.unsure for slot in kept):
                self._client.leave_late(self._held)
        finally:
            await asyncio.wait(self._keepers)
        if losses and ours:
            raise losses[0] from error

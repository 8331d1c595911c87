"""`SyncHubClient`: the twin of `HubClient` for programs with threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Generic, Self, Unpack

import httpx

from hub.client import calls
from hub.client.backlog import CLOSE_S, backlog_of
from hub.client.borrower import SECRET_NAMES
from hub.client.bundle import H, HeldBundle, Part, read_parts, slots_of
from hub.client.calls import LeaseFilters
from hub.client.exchange import RetryPolicy
from hub.client.options import spelt_out
from hub.client.slot import NOT_RENEWED, Slot, keep, renew, tell_use
from hub.client.transport import Secret, Stopped, SyncTransport
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
from hub.client.watch import SyncWatch
from hub.errors import HubUnavailable, LeaseLost
from hub.retries import now_s

OnLost = Callable[[Slot], object]


def kept(http: SyncTransport, slot: Slot, stop: threading.Event) -> LeaseLost | None:
    """Renew `slot` until a final failure, and return its error; None once `stop` is set or it was given back."""
    try:
        return http.run(keep(slot), stop)
    except Stopped:
        return None


class SyncBundle(HeldBundle):
    """The slots that `SyncHubClient.borrow_all` has lent: `slots` in the order of the parts, `id`, `together`, `owed`.

    Each of `slots` is a slot like that of `borrow`, and may be given back alone.
    """

    def give_back(self) -> bool:
        """Give all slots back before the end of the block; return False if all leases had ended before."""
        returned: bool = self._give_back(self)
        return returned


class SyncBorrowing(Generic[H]):
    """The `with` block of one `SyncHubClient.borrow` or `SyncHubClient.borrow_all`."""

    def __init__(
        self, client: SyncHubClient, acquire: Callable[[], H], on_ending: OnEnding | None, on_lost: OnLost | None
    ) -> None:
        self._client = client
        self._acquire = acquire
        self._on_ending = on_ending
        self._on_lost = on_lost
        self._stop = threading.Event()

    def __enter__(self) -> H:
        self._held = self._acquire()
        self._keepers = [self._keeper_of(slot) for slot in slots_of(self._held)]
        return self._held

    def _keeper_of(self, slot: Slot) -> threading.Thread:
        if self._on_ending is not None:
            slot.on_ending(self._on_ending)
        keeper = threading.Thread(target=self._keep, args=(slot,), name=f"renew-{slot.id}", daemon=True)
        keeper.start()
        self._client.watch.add(slot)
        return keeper

    def _keep(self, slot: Slot) -> None:
        try:
            lost = self._client.keep(slot, self._stop)
        except Exception as error:  # noqa: BLE001 - a bug, but a slot without renewals is lost all the same
            lost = slot.loss(f"renewing broke off with {error!r}")
        if lost is not None and self._on_lost is not None and not self._stop.is_set():
            self._on_lost(slot)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._held.is_ours:  # a forked child: the parent holds the slot, renews it and gives it back
            return
        kept = [slot for slot in slots_of(self._held) if not slot.returned]
        losses = [slot.loss(NOT_RENEWED) for slot in kept if slot.seconds_left() <= 0]
        self._stop.set()
        for slot in slots_of(self._held):
            self._client.watch.remove(slot)
        try:
            if any(slot.revoked or not slot.lost.is_set() for slot in kept):
                self._client.leave(self._held)
            elif any(slot.unsure for slot in kept):
                self._client.leave_late(self._held)
        finally:
            until_s = now_s() + 1.0  # a thread may be inside a request, whose answer no longer matters
            for keeper in self._keepers:
                keeper.join(timeout=max(0.0, until_s - now_s()))
        if losses and (error is None or isinstance(error, Exception)):
            raise losses[0] from error


# Written from the class `HubClient` by `make twins`: change that class, not this one.
class SyncHubClient:
    """A borrower of slots, for programs with threads; any number of them may share one.

    `url` defaults to `HUB_URL` (or http://127.0.0.1:8080), and `secret` to `HUB_RUNNER_SECRET`, else to `HUB_TOKEN`, a
    token of a user that may borrow; a callable is called for that of each request. A call is repeated for `timeout`
    seconds while no hub answers or the hub asks to wait. Each attempt may take `attempt_timeout` seconds, and up to 30
    more in the queue. After that, or when the hub refuses for good, the call raises a `hub.errors.HubError`:
    `HubUnavailable` when no hub answered, `Unauthorized` when the secret is wrong, `NotHolder` when the lease is
    another caller's. Close the client with
    `client.close()` or `with`.
    """

    def __init__(
        self,
        url: str | None = None,
        secret: str | Callable[[], str] | None = None,
        *,
        timeout: float = 10.0,
        attempt_timeout: float = 15.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._http = SyncTransport(url, Secret(secret, *SECRET_NAMES), transport)
        self._backlog = backlog_of(self._http)
        self._policy = RetryPolicy(trouble_s=timeout, attempt_s=attempt_timeout)
        self.watch = SyncWatch(self._http)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. A slot that is still held stays lent until its lease ends.

        See `HubClient.close` for the rest.
        """
        self.watch.close()
        if self._backlog.end_with_client():
            self._backlog.close(CLOSE_S)
        self._http.close()

    @spelt_out(BorrowOptions, BORROW_DEFAULTS)
    def borrow(
        self,
        label: str = "",
        *,
        on_ending: OnEnding | None = None,
        on_lost: OnLost | None = None,
        **options: Unpack[BorrowOptions],
    ) -> SyncBorrowing[Slot]:
        """`with client.borrow("gpu:a100") as slot:` - hold a slot of `label` while the block runs.

        `client.borrow("gpu", where="vram >= 40", prefer=["repo-42"], any_of=["cpu:large"])` chooses by attributes.
        Entering raises what `acquire` raises. A daemon thread renews the lease. When it cannot be renewed in
        time or the hub has ended it, `slot.lost` is set before the hub can lend the slot again, and `on_lost(slot)` is
        called in that thread. Nothing stops the block by itself; it asks `slot.lost` or `slot.check()`. Leaving gives
        the slot back, or raises `LeaseLost`. While no hub can be reached, giving back goes on in the background
        until the lease has ended, also after the client was closed; the exit of the program waits up to five seconds.
        `on_ending` is told before the lease ends by a rule of its pool, as with `Slot.on_ending`.
        """
        wanted = BorrowCall(label, options, renews=True)

        def acquire() -> Slot:
            return self._http.run(borrow(wanted, self._policy, self._backlog))

        return SyncBorrowing(self, acquire, on_ending, on_lost)

    @spelt_out(BundleOptions, BUNDLE_DEFAULTS)
    def borrow_all(
        self,
        parts: Sequence[Part],
        *,
        same_node: bool = False,
        together: bool = False,
        on_lost: OnLost | None = None,
        **options: Unpack[BundleOptions],
    ) -> SyncBorrowing[SyncBundle]:
        """`with client.borrow_all([("gpu:a100", 4)]) as bundle:` - hold several slots, or none, in the block.

        A part is a label, a pair `(label, count)`, or a dict with `label`, `where` and `count`: 16 slots at most in
        all. `same_node` takes all from one node. Nothing is held while the call waits. With `together` the hub ends all
        leases as soon as one is lost. Each slot is held as that of `borrow` is:
        `on_lost(slot)` is called for each that is lost. Leaving gives all back by one call.
        Where fewer slots are published than are wanted, the call raises `NoSuchPool` at once, unless `wait_for_pool`
        is True.
        """
        made = partial(SyncBundle, self.give_back)
        wanted = BundleCall(read_parts(parts), made, same_node, together, options)

        def acquire() -> SyncBundle:
            return self._http.run(borrow(wanted, self._policy, self._backlog))

        return SyncBorrowing(self, acquire, None, on_lost)

    @spelt_out(BorrowOptions, BORROW_DEFAULTS)
    def acquire(self, label: str = "", **options: Unpack[BorrowOptions]) -> Slot:
        """Borrow a slot of `label`; the caller renews its lease and gives it back.

        See `HubClient.acquire` for the rest.
        """
        return self._http.run(borrow(BorrowCall(label, options), self._policy, self._backlog))

    def renew(self, slot: Slot, ttl: float | None = None) -> None:
        """Make the lease last `ttl` seconds from now (None: as long as asked for before); the hub may grant less.

        See `HubClient.renew` for the rest.
        """
        self._http.run(renew(slot, ttl, self._policy))

    def active(self, slot: Slot) -> None:
        """Tell the hub that the slot is in use, so that no idle rule ends its lease; it is not extended.

        See `HubClient.active` for the rest.
        """
        self._http.run(tell_use(slot, -1.0, self._policy))

    def pause(self, slot: Slot, seconds: float) -> None:
        """Let the slot count as used for `seconds`, at most up to the longest hold of its pool; 0 ends that."""
        self._http.run(tell_use(slot, max(0.0, seconds), self._policy))

    def give_back(self, slot: Slot | SyncBundle) -> bool:
        """Give the slot back; return False if its lease had ended before. Safe to repeat: no later lease is touched."""
        return self._http.run(calls.hand_back(slot, self._policy, self._backlog))

    def verify(self, slot_id: str, token: str) -> dict[str, Any]:
        """Return `{"slotId", "valid", "reason"?, "ttlSeconds"?}`: whether the slot is now lent under this token."""
        return self._http.run(calls.read(self._policy, "leases", slot_id, "verify", token=token))

    def nodes(self, *, limit: int = 100, cursor: str = "0", state: str | None = None) -> dict[str, Any]:
        """Return a page `{"total", "nodes", "next"}`; `state` is alive, suspect, stale or draining, `next` a cursor."""
        return self._http.run(
            calls.read(self._policy, "nodes", detail=1, limit=limit, cursor=cursor, state=state or None)
        )

    def node(self, node_id: str) -> dict[str, Any]:
        """Return one node with its slots; raises `NotFound` when no such node is registered."""
        return self._http.run(calls.read(self._policy, "nodes", node_id))

    def pools(self, *, limit: int = 100, offset: int = 0) -> dict[str, Any]:
        """Return a page `{"total", "pools", ...}` of the pools, each with its numbers of free and lent slots."""
        return self._http.run(calls.read(self._policy, "pools", limit=limit, offset=offset))

    def pool(self, label: str) -> dict[str, Any]:
        """Return one pool; raises `NotFound` when there is none of this label."""
        return self._http.run(calls.read(self._policy, "pools", label))

    @spelt_out(LeaseFilters)
    def leases(self, *, limit: int = 100, offset: int = 0, **where: Unpack[LeaseFilters]) -> dict[str, Any]:
        """Return a page `{"total", "leases"}` of the leases, those that end first at the top. Takes at most one filter.

        See `HubClient.leases` for the rest.
        """
        page = calls.read(self._policy, "sessions", headers=calls.NEUTRAL, limit=limit, offset=offset, **where)
        return self._http.run(page)

    def lease(self, slot_id: str) -> dict[str, Any]:
        """Return the lease of one slot, as in `leases`; raises `NotFound` when the slot is not lent."""
        return self._http.run(calls.read(self._policy, "sessions", slot_id, headers=calls.NEUTRAL))

    @spelt_out(LeaseFilters)
    def sessions(self, *, limit: int = 100, offset: int = 0, **where: Unpack[LeaseFilters]) -> dict[str, Any]:
        """Return the leases in the former names: `{"total", "sessions"}`, each with `browserId` and `labelKey`."""
        return self._http.run(calls.read(self._policy, "sessions", limit=limit, offset=offset, **where))

    def session(self, slot_id: str) -> dict[str, Any]:
        """Return the lease of one slot in the former names; raises `NotFound` when the slot is not lent."""
        return self._http.run(calls.read(self._policy, "sessions", slot_id))

    def keep(self, slot: Slot, stop: threading.Event) -> LeaseLost | None:
        """Renew `slot` until a final failure, and return its error; None once `stop` is set or it was given back."""
        return kept(self._http, slot, stop)

    def leave(self, slot: Slot | HeldBundle) -> None:
        """Give the slot back at the end of a block; after a few seconds without success, go on in the background."""
        self._http.run(calls.leave(slot, self._backlog))

    def leave_late(self, slot: Slot | HeldBundle) -> None:
        """Give back in the background a lost slot that may still be lent, because a renewal had no answer."""
        calls.owe(slot, self._backlog, HubUnavailable("a renewal had no answer"))

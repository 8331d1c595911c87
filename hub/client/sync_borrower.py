"""`SyncHubClient`: the twin of `HubClient` for programs with threads."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self

import httpx

from hub.client import calls, waiting
from hub.client.backlog import CLOSE_S, backlog_of
from hub.client.borrower import SECRET_NAME
from hub.client.exchange import RetryPolicy
from hub.client.slot import Slot, keep, renew
from hub.client.transport import Stopped, SyncTransport
from hub.client.watch import SyncWatch
from hub.errors import HubUnavailable, LeaseLost

OnLost = Callable[[Slot], object]


class SyncHubClient:
    """Borrows slots from a hub, without asyncio; any number of threads may share one. Arguments as for `HubClient`."""

    def __init__(
        self,
        url: str | None = None,
        secret: str | None = None,
        *,
        timeout: float = 10.0,
        attempt_timeout: float = 15.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._http = SyncTransport(url, secret, SECRET_NAME, transport)
        self._backlog = backlog_of(self._http)
        self._policy = RetryPolicy(trouble_s=timeout, attempt_s=attempt_timeout)
        self.watch = SyncWatch(self._http)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. Slots still held are left to their leases.

        What could not be given back yet is given back in the background, until its lease has ended.
        """
        self.watch.close()
        if self._backlog.end_with_client():
            self._backlog.close(CLOSE_S)
        self._http.close()

    def borrow(
        self,
        label: str,
        *,
        ttl: float | None = None,
        run: str | None = None,
        run_name: str | None = None,
        wait: float | None = 0.0,
        priority: int = 0,
        wait_for_pool: bool = True,
        ticket: str | None = None,
        realms: Sequence[str] = (),
        on_lost: OnLost | None = None,
    ) -> SyncBorrowing:
        """`with client.borrow("gpu:a100") as slot:` - hold a slot of `label` while the block runs.

        Entering raises what `acquire` raises. A daemon thread renews the lease. When it is lost, before the hub can
        lend the slot to somebody else, `slot.lost` is set and `on_lost(slot)` is called in that thread; nothing stops
        the block by itself: it asks `slot.lost` or `slot.check()`. Leaving gives the slot back, or raises `LeaseLost`.
        """
        return SyncBorrowing(
            self,
            partial(
                self.acquire,
                label,
                ttl=ttl,
                run=run,
                run_name=run_name,
                wait=wait,
                priority=priority,
                wait_for_pool=wait_for_pool,
                ticket=ticket,
                realms=realms,
            ),
            on_lost,
        )

    def acquire(
        self,
        label: str,
        *,
        ttl: float | None = None,
        run: str | None = None,
        run_name: str | None = None,
        wait: float | None = 0.0,
        priority: int = 0,
        wait_for_pool: bool = True,
        ticket: str | None = None,
        realms: Sequence[str] = (),
    ) -> Slot:
        """As `HubClient.acquire`: a slot for `ttl` seconds, or `NoCapacity` after `wait` seconds (None: never).

        The place in the queue is given up when the wait is interrupted, by Ctrl-C or by what a signal handler raises.
        """
        wanted = waiting.BorrowRequest(
            label,
            ttl,
            run,
            run_name,
            priority,
            math.inf if wait is None else wait,
            wait_for_pool,
            ticket,
            tuple(realms),
        )
        return self._http.run(waiting.borrow(wanted, self._policy, self._backlog))

    def renew(self, slot: Slot, ttl: float | None = None) -> None:
        """As `HubClient.renew`: let the lease last `ttl` seconds from now, or raise `LeaseLost`."""
        self._http.run(renew(slot, ttl, self._policy))

    def give_back(self, slot: Slot) -> bool:
        """As `HubClient.give_back`: False when the lease had ended before."""
        return self._http.run(calls.hand_back(slot, self._policy, self._backlog))

    def verify(self, slot_id: str, token: str) -> dict[str, Any]:
        """As `HubClient.verify`: whether the slot is lent under this fencing token now."""
        return self._http.run(calls.verify(slot_id, token, self._policy))

    def nodes(self, *, limit: int = 100, cursor: str = "0", state: str | None = None) -> dict[str, Any]:
        """As `HubClient.nodes`: a page of the registered nodes."""
        return self._http.run(calls.nodes(limit, cursor, state, self._policy))

    def node(self, node_id: str) -> dict[str, Any]:
        """As `HubClient.node`: one node with its slots, or `NotFound`."""
        return self._http.run(calls.one("nodes", node_id, self._policy))

    def pools(self, *, limit: int = 100, offset: int = 0) -> dict[str, Any]:
        """As `HubClient.pools`: a page of the pools."""
        return self._http.run(calls.pools(limit, offset, self._policy))

    def pool(self, label: str) -> dict[str, Any]:
        """As `HubClient.pool`: one pool, or `NotFound`."""
        return self._http.run(calls.one("pools", label, self._policy))

    def leases(
        self,
        *,
        limit: int = 100,
        offset: int = 0,
        label: str | None = None,
        pool: str | None = None,
        node: str | None = None,
        run: str | None = None,
    ) -> dict[str, Any]:
        """As `HubClient.leases`: a page of what is lent."""
        where = calls.filters(label=label, pool=pool, node=node, run=run)
        return self._http.run(calls.leases(limit, offset, where, self._policy))

    def lease(self, slot_id: str) -> dict[str, Any]:
        """As `HubClient.lease`: the lease of one slot, or `NotFound`."""
        return self._http.run(calls.lease(slot_id, self._policy))

    def sessions(
        self,
        *,
        limit: int = 100,
        offset: int = 0,
        label: str | None = None,
        pool: str | None = None,
        node: str | None = None,
        run: str | None = None,
    ) -> dict[str, Any]:
        """As `HubClient.sessions`: a page of what is lent."""
        where = calls.filters(label=label, pool=pool, node=node, run=run)
        return self._http.run(calls.sessions(limit, offset, where, self._policy))

    def session(self, slot_id: str) -> dict[str, Any]:
        """As `HubClient.session`: the session of one slot, or `NotFound`."""
        return self._http.run(calls.one("sessions", slot_id, self._policy))

    def keep(self, slot: Slot, stop: threading.Event) -> LeaseLost | None:
        """Renew `slot` until that fails for good, and return why; None once `stop` is set or it was given back."""
        try:
            return self._http.run(keep(slot), stop)
        except Stopped:
            return None

    def leave(self, slot: Slot) -> None:
        """Give the slot back at the end of a block: what takes more than a few seconds is done in the background."""
        self._http.run(calls.leave(slot, self._backlog))

    def leave_late(self, slot: Slot) -> None:
        """Give back in the background a slot that was lost: a renewal without an answer may have kept it lent."""
        calls.owe(slot, self._backlog, HubUnavailable("a renewal had no answer"))


class SyncBorrowing:
    """The `with` of `SyncHubClient.borrow`; good for one use."""

    def __init__(self, client: SyncHubClient, acquire: Callable[[], Slot], on_lost: OnLost | None) -> None:
        self._client = client
        self._acquire = acquire
        self._on_lost = on_lost
        self._stop = threading.Event()

    def __enter__(self) -> Slot:
        self._slot = self._acquire()
        self._keeper = threading.Thread(target=self._keep, name=f"renew-{self._slot.id}", daemon=True)
        self._keeper.start()
        self._client.watch.add(self._slot)
        return self._slot

    def _keep(self) -> None:
        try:
            lost = self._client.keep(self._slot, self._stop)
        except Exception as error:  # noqa: BLE001 - a bug, but a slot that nobody renews is lost all the same
            lost = self._slot.loss(f"renewing broke off with {error!r}")
        if lost is not None and self._on_lost is not None and not self._stop.is_set():
            self._on_lost(self._slot)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        slot = self._slot
        if not slot.is_ours:  # the parent of this process holds it, renews it and gives it back
            return
        returned = slot.returned
        lost = slot.seconds_left() <= 0
        self._stop.set()
        self._client.watch.remove(slot)
        try:
            if (not lost or slot.revoked) and not returned:
                self._client.leave(slot)
            elif slot.unsure and not returned:
                self._client.leave_late(slot)
        finally:
            self._keeper.join(timeout=1.0)  # it may be inside a request, whose answer no longer matters
        if lost and not returned and (error is None or isinstance(error, Exception)):
            raise slot.loss("not renewed in time") from error

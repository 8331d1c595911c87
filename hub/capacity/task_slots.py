"""Slots for tasks: a worker waits for what the next task of a job needs."""

from __future__ import annotations

import hashlib

from hub.capacity.bundles import Bundles
from hub.capacity.leases import keep_key_s, new_attempt
from hub.capacity.models import BorrowRequest
from hub.capacity.wishes import BundleWish
from hub.errors import LeaseOver, NoCapacity, UnknownReply
from hub.settings import Settings
from hub.store.store import Store


class TaskSlots:
    """The waits of workers for slots of their tasks."""

    def __init__(self, store: Store, bundles: Bundles, settings: Settings) -> None:
        self._give_up = store.script("tasks/give_up_slots")
        self._bundles = bundles
        self._settings = settings

    async def wait(self, needs: str, ticket: str, holder: str, ttl_ms: int, wait_s: float) -> str:
        """Wait in the line of bundles for up to `wait_s` seconds and return the bundle that is lent, '' for none. The
        ticket keeps its place from wait to wait."""
        wish = BundleWish.read(needs)
        if wish is None:
            raise UnknownReply("tasks/claim", needs)
        found = BorrowRequest(
            label=wish.parts[0].label, ttl_ms=ttl_ms, run=ticket, request=ticket,
            attempt=new_attempt(self._settings.realm), fingerprint=hashlib.sha256(needs.encode()).hexdigest()[:16],
            keep_s=keep_key_s(self._settings, ttl_ms), keyed=True, wait_ms=max(1, int(wait_s * 1000)), holder=holder,
            bundle=needs, hopes=True,
        )  # fmt: skip
        try:
            return (await self._bundles.borrow_all(found)).id
        except (NoCapacity, LeaseOver):  # none came, or they have ended meanwhile
            return ""

    async def give_back(self, bundle: str) -> None:
        """Give slots back that no task has."""
        await self._give_up(bundle=bundle)

    async def remember(self, bundle: str) -> bool:
        """Remember slots that were lent, so that a store which has lost that is told; return whether there are any."""
        return await self._bundles.remember(bundle)

"""The traces of tickets, leases and tasks: kept in the store, so that later calls about them can be linked to them.
Used only while traces are on; a failure here never makes a call fail."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from hub.errors import StoreFault, StoreUnavailable
from hub.observability.tracing import tracing
from hub.store.keys import key_part
from hub.store.store import Store

KEPT_S = 86_400  # the longest life of a lease; a task that waits longer is not linked
SOME = 64  # the most links of one call: collectors throw away a span with thousands of links
FOLLOW_S = 0.25  # the longest time for which a request waits for its links
_keeping: set[asyncio.Future[None]] = set()


def ticket(request: str) -> str:
    """Return the name under which the trace of a ticket is kept."""
    return f"ticket:{request}"


def lease(slot: str, token: str) -> str:
    """Return the name under which the trace of a lease is kept."""
    return f"lease:{key_part(slot.strip())}:{token}"


def task(id: str) -> str:
    """Return the name under which the trace of a task is kept."""
    return f"task:{id}"


def keep(store: Store, *of: str) -> None:
    """Keep the current trace in the store under each of these names, unless the name has a trace already. The call does
    not wait for the store."""
    if tracing.on and (text := tracing.parent_text()):
        keeping = asyncio.ensure_future(_keep(store, text, of[:SOME]))
        _keeping.add(keeping)
        keeping.add_done_callback(_keeping.discard)


async def _keep(store: Store, text: str, of: Iterable[str]) -> None:
    try:
        await store.read_all(("SET", store.keys.trace(each), text, "EX", KEPT_S, "NX") for each in of)
    except (StoreUnavailable, StoreFault):
        return  # only the links are missing then


async def follow(store: Store, *of: str) -> dict[str, str]:
    """Link the current span to the traces that are kept under these names. Return the known `traceparent` texts by
    name."""
    if not (tracing.on and of):
        return {}
    names = of[:SOME]
    try:
        async with asyncio.timeout(FOLLOW_S):
            kept = await store.read_all(("GET", store.keys.trace(each)) for each in names)
    except (StoreUnavailable, StoreFault, TimeoutError):
        return {}
    found = {name: text for name, text in zip(names, kept, strict=True) if text}
    tracing.link(found)
    return found

"""Keeping the trace of what waits or is lent, and linking those who go on with it. Asked for while traces are on
alone, and never why a call fails."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from hub.errors import StoreFault, StoreUnavailable
from hub.observability.tracing import tracing
from hub.store.keys import key_part
from hub.store.store import Store

KEPT_S = 86_400  # as long as a lease may live; a task that waits longer has lost the thread
SOME = 64  # of the tasks of one call that are linked; a span with thousands of links is thrown away by collectors
FOLLOW_S = 0.25  # for links to be found; a request waits no longer for them
_keeping: set[asyncio.Future[None]] = set()


def ticket(request: str) -> str:
    """Return the name of a ticket of the queue."""
    return f"ticket:{request}"


def lease(slot: str, token: str) -> str:
    """Return the name of a lease."""
    return f"lease:{key_part(slot.strip())}:{token}"


def task(id: str) -> str:
    """Return the name of a task."""
    return f"task:{id}"


def keep(store: Store, *of: str) -> None:
    """Keep the current trace as the one that these come from; the first that is kept counts. No call waits for it."""
    if tracing.on and (text := tracing.parent_text()):
        keeping = asyncio.ensure_future(_keep(store, text, of[:SOME]))
        _keeping.add(keeping)
        keeping.add_done_callback(_keeping.discard)


async def _keep(store: Store, text: str, of: Iterable[str]) -> None:
    try:
        await store.read_all(("SET", store.keys.trace(each), text, "EX", KEPT_S, "NX") for each in of)
    except (StoreUnavailable, StoreFault):
        return  # the link is missing, and nothing else


async def follow(store: Store, *of: str) -> dict[str, str]:
    """Link the current span to where these come from; their `traceparent`s, of those that are known."""
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

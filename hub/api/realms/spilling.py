"""Spill-over between realms, as calls need it: which other realms may serve a borrow, and which realm has lent a slot
that the called realm has not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TypeVar

from fastapi import Request

from hub.api.realms.others import ServedRealms
from hub.api.realms.search import LOOK_S, where_lent
from hub.api.realms.subjects import NAMED, UnknownRealm
from hub.capacity.leases import Leases
from hub.capacity.models import Elsewhere, Ticket
from hub.capacity.watching import NOTHING, Heard, Held, Watched
from hub.core import Hub
from hub.errors import LeaseOver, Settling, StoreUnavailable, Unavailable
from hub.observability.realms import within
from hub.settings.realms import DEFAULT, SPILL_AFTER_S
from hub.store.cancelling import cancel_all

A = TypeVar("A", bound=tuple[Any, ...])
# Replies of a script after which another realm is asked: it may have made the lease.
ELSEWHERE: Final = ("not lent", "stale token", "ended")


def hub_of(realms: ServedRealms, name: str) -> Hub | None:
    """Return the hub of a realm; None while its store has not been opened, and for a realm that this process does not
    serve."""
    part = realms.parts.get("" if name == DEFAULT else name)
    found = part.serving if part else None
    return found.hub if found else None


def spilling_over(hub: Hub, realms: ServedRealms | None) -> Hub:
    """Let the other realms serve tickets of this hub's realm, and return this hub."""

    def leases_of(name: str) -> Leases | None:
        found = hub_of(realms, name) if realms else None
        return found.leases if found else None

    hub.leases.spilling.leases_of = leases_of
    return hub


def where_else(request: Request, hub: Hub, named: tuple[str, ...]) -> tuple[tuple[str, ...], float]:
    """Return the names of the realms that may serve a borrow beside this one, and for how many seconds the borrow waits
    here first. The realms are those that the call names, else those of the realms file. Raises `UnknownRealm` when this
    hub does not serve a realm that the call names."""
    realms: ServedRealms | None = request.app.state.realms
    own = realms.declared(hub.settings.realm) if realms else None
    if not named:
        return (own.spill_to, own.spill_after_s) if own else ((), 0.0)
    served = [name or DEFAULT for name in realms.parts] if realms else [DEFAULT]
    if unknown := [name for name in named if name not in served]:
        raise UnknownRealm(f"This hub serves no realm {unknown[0]!r}; it serves {', '.join(served)}.")
    home = hub.settings.realm or DEFAULT
    return tuple(name for name in named if name != home), own.spill_after_s if own else SPILL_AFTER_S


async def served(request: Request, ticket: Ticket, place: Elsewhere) -> Ticket:
    """Return a ticket with the lease that another realm has made for it. Raises `LeaseOver` and `UnknownTicket` as that
    realm does, and `StoreUnavailable` when that realm does not answer."""
    other = away_or(request.app.state.realms, place.realm)
    try:
        with within("" if place.realm == DEFAULT else place.realm):
            async with asyncio.timeout(LOOK_S):
                found = await other.tickets.find(place.request)
    except TimeoutError:
        raise StoreUnavailable(f"Realm {place.realm}, which serves this ticket, does not answer in time") from None
    lease = found.lease._replace(realm=place.realm) if found.lease else None
    return replace(ticket, state=found.state, label=found.label, run=found.run, ttl_ms=found.ttl_ms, lease=lease)


async def lenders(request: Request, hub: Hub, leases: Sequence[Held]) -> dict[str, list[Held]]:
    """Return which of these leases other realms have made for tickets of this realm, by the name of the lending realm.
    A lease without a token stands for any lease of its slot."""
    if request.app.state.realms is None:
        return {}
    keys = hub.store.keys
    found: dict[str, list[Held]] = {}
    rows = await hub.store.read_all(
        ("HGET", keys.elsewhere(slot), token) if token else ("HVALS", keys.elsewhere(slot)) for slot, token in leases
    )
    for held, row in zip(leases, rows, strict=True):
        name = row[-1] if isinstance(row, list) and row else row
        if name:
            found.setdefault(name, []).append(held)
    return found


async def lender(request: Request, hub: Hub, slot: str, token: str) -> Hub | None:
    """Return the hub of the other realm that has lent this slot with this token to a ticket of this realm; None when
    there is none. A call that names no realm may also mean a lease that another realm has made for itself: then all
    realms are asked. Raises `StoreUnavailable` when the lending realm is noted here and does not answer."""
    for name in await lenders(request, hub, [(slot, token)]):
        return away_or(request.app.state.realms, name)
    if not token or request.app.state.realms is None or request.scope.get(NAMED) is not None:
        return None
    with suppress(Unavailable):  # a realm that is away cannot say whether it has lent the slot
        realms: ServedRealms = request.app.state.realms
        found = await where_lent([*realms.parts.values()], slot, token)
        return hub_of(realms, found or DEFAULT) if found is not None else None
    return None


async def at_lender(request: Request, hub: Hub, slot: str, token: str, act: Callable[[Hub], Awaitable[A]]) -> A:
    """Call `act` with this hub; where that finds no such lease, call it with the hub of the realm that has lent this
    slot with this token, if there is one. Return the answer, whose first member may be a word of `ELSEWHERE`."""
    try:
        answer = await act(hub)
    except (LeaseOver, Settling):
        if (other := await lender(request, hub, slot, token)) is None:
            raise
        return await act(other)
    if answer[0] in ELSEWHERE and (other := await lender(request, hub, slot, token)):
        return await act(other)
    return answer


def away_or(realms: ServedRealms, name: str) -> Hub:
    """Return the hub of the realm that has lent a slot; raises `StoreUnavailable` when its store is not open."""
    if (found := hub_of(realms, name)) is None:
        raise StoreUnavailable(f"Realm {name}, which has lent this slot, is away")
    return found


async def watched(
    request: Request,
    hub: Hub,
    leases: Sequence[Held],
    wait_s: float,
    ended: Callable[[], Awaitable[bool]],
    heard: Heard = NOTHING,
) -> Watched:
    """Wait until one of these leases ends, as `hub.watching.wait` does, and return what that returns. Leases that
    other realms have made for tickets of this realm are watched too, and any lease of any realm when the call names no
    realm. A realm that is away reports no end."""
    theirs = await _lent_by(request, hub, leases)
    if not theirs:
        return await hub.watching.wait(leases, wait_s, ended, heard)
    elsewhere = {held for found in theirs.values() for held in found}
    waits = [
        asyncio.create_task(_wait(name, other, theirs[name], wait_s, ended, heard), name="watch")
        for name in theirs
        if (other := hub_of(request.app.state.realms, name))
    ]
    if own := [held for held in leases if held not in elsewhere]:
        waits.append(asyncio.create_task(hub.watching.wait(own, wait_s, ended, heard), name="watch"))
    try:
        for each in asyncio.as_completed(waits):
            with suppress(StoreUnavailable):
                if any(found := await each):
                    return found
        return Watched([], [], [])
    finally:
        await cancel_all(waits)


async def _lent_by(request: Request, hub: Hub, leases: Sequence[Held]) -> dict[str, list[Held]]:
    """Return which of these leases other realms have made, by the name of the lending realm."""
    found = await lenders(request, hub, leases)
    realms: ServedRealms | None = request.app.state.realms
    if realms is None or request.scope.get(NAMED) is not None:
        return found
    known = {held for each in found.values() for held in each}
    over, _ = await hub.watching.over([held for held in leases if held not in known])
    strange = [(slot, token) for slot, token, _, _ in over]
    if not strange:
        return found

    async def look(name: str) -> None:
        other = hub_of(realms, name)
        if other is not None and other is not hub:
            with suppress(StoreUnavailable, TimeoutError), within("" if name == DEFAULT else name):
                async with asyncio.timeout(LOOK_S):
                    over = {(slot, token) for slot, token, _, _ in (await other.watching.over(strange))[0]}
                found.setdefault(name, []).extend(held for held in strange if held not in over)

    await asyncio.gather(*(look(name or DEFAULT) for name in realms.parts))
    return {name: lent for name, lent in found.items() if lent}


async def _wait(
    name: str,
    other: Hub,
    leases: Sequence[Held],
    wait_s: float,
    ended: Callable[[], Awaitable[bool]],
    heard: Heard,
) -> Watched:
    with within("" if name == DEFAULT else name):
        return await other.watching.wait(leases, wait_s, ended, heard)

"""The search for the realm in which a slot is lent, a ticket waits or a bundle is held, for a call that neither names a
realm nor has a subject that a rule decides on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from enum import Enum

from hub.api.realms.others import ServedRealm
from hub.core import Hub
from hub.errors import BadInput, LeaseOver, Settling, StoreUnavailable, Unavailable, UnknownTicket
from hub.history.tickets import ticket_ids
from hub.observability.realms import within
from hub.settings.realms import DEFAULT
from hub.store.cancelling import cancel_all
from hub.store.keys import key_part

LOOK_S = 2.0  # for all realms in parallel; a realm that stands still holds up the search for no longer


class Whereabouts(Enum):
    """The answer of one realm to the question whether a slot or a ticket is there. `OTHER`: the slot is lent there with
    another token than the one asked for."""

    HERE = "here"
    OTHER = "other"
    NOT = "not here"
    UNKNOWN = "it cannot say"


async def where_lent(parts: Sequence[ServedRealm], slot: str, token: str) -> str | None:
    """Return the name of the realm in which a slot is lent: with this token, else with another one; None when no realm
    has lent the slot.

    Raises `Unavailable` when some realm does not answer and no other has lent the slot with this token. Raises
    `BadInput` when several realms have lent it and the call has no token.
    """

    async def look(hub: Hub) -> Whereabouts:
        word, _ = await hub.leases.verify(key_part(slot), token or "0")
        return Whereabouts.HERE if word == "ok" else Whereabouts.NOT if word == "not lent" else Whereabouts.OTHER

    said = await _ask(parts, look)
    others = [name for name, found in said.items() if found is Whereabouts.OTHER]
    if (here := _only(said)) is not None:
        return here
    if Whereabouts.UNKNOWN in said.values():
        raise Unavailable(f"No realm that answers has lent {slot}, and not all of them answer.")
    if len(others) > 1 and not token:
        names = ", ".join(name or DEFAULT for name in others)
        raise BadInput(f"{slot} is lent in the realms {names}: say in x-hub-realm which one is meant.")
    return others[0] if others else None


async def where_waiting(parts: Sequence[ServedRealm], ticket: str) -> str | None:
    """Return the name of the realm that knows a ticket; None when no realm knows it. Raises `Unavailable` when a realm
    does not answer and no other knows it."""

    async def look(hub: Hub) -> Whereabouts:
        try:
            await hub.tickets.find(*ticket_ids(ticket))
        except UnknownTicket:
            return Whereabouts.NOT
        except LeaseOver:
            pass
        return Whereabouts.HERE

    return await _where(parts, look, "ticket")


async def where_held(parts: Sequence[ServedRealm], bundle: str) -> str | None:
    """Return the name of the realm in which a bundle is held; None when no realm knows it. Raises as `where_waiting`
    does."""

    async def look(hub: Hub) -> Whereabouts:
        if await hub.store.read("EXISTS", hub.store.keys.bundle(bundle)):
            return Whereabouts.HERE
        # Raises `Settling` where the store was lost and may yet be told of it: the id is `b` and the token of a lease.
        await hub.leases.verify(key_part(bundle), bundle[1:])
        return Whereabouts.NOT

    return await _where(parts, look, "bundle")


async def _where(parts: Sequence[ServedRealm], look: Callable[[Hub], Awaitable[Whereabouts]], what: str) -> str | None:
    said = await _ask(parts, look)
    here = _only(said)
    if here is None and Whereabouts.UNKNOWN in said.values():
        raise Unavailable(f"No realm that answers knows this {what}, and not all of them answer.")
    return here


def _only(said: dict[str, Whereabouts]) -> str | None:
    return next((name for name, found in said.items() if found is Whereabouts.HERE), None)


async def _ask(parts: Sequence[ServedRealm], look: Callable[[Hub], Awaitable[Whereabouts]]) -> dict[str, Whereabouts]:
    """Ask all realms in parallel through `look`, until one answers `HERE` or `LOOK_S` seconds are over. Return the
    answers by the name of the realm; `UNKNOWN` for a realm that has not answered."""

    async def ask(part: ServedRealm) -> None:
        if (found := part.serving) is None:
            return
        with suppress(StoreUnavailable, Settling), within(part.name):
            said[part.name] = await look(found.hub)

    said = {part.name: Whereabouts.UNKNOWN for part in parts}
    asking = {asyncio.create_task(ask(part), name="look") for part in parts}
    until = time.monotonic() + LOOK_S
    try:
        while asking and Whereabouts.HERE not in said.values():
            left_s = until - time.monotonic()
            done, asking = await asyncio.wait(asking, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
            if not done:
                break
    finally:
        await cancel_all(list(asking))
    return said

"""Workers of clients that know no realms: such a client makes its worker before it says of which room its jobs are."""

from __future__ import annotations

import asyncio
from uuid import UUID

from fastapi import Request

from hub.api.callers.users import Caller
from hub.api.realms.others import ServedRealms
from hub.api.realms.search import LOOK_S
from hub.api.realms.subjects import NAMED
from hub.core import Hub
from hub.errors import StoreUnavailable, WorkerNotFound
from hub.observability.realms import within
from hub.settings.realms import DEFAULT, tag_in, tag_of


async def worker_for(request: Request, hub: Hub, who: Caller, said: UUID | None) -> str | None:
    """The worker that is to serve what a call registers; None for one that is to be made for it.

    One of the caller's in another realm that serves nothing there is left alone, and lapses: the answer names the new
    one. Raises `WorkerNotFound` for one that does serve something, and `StoreUnavailable` when nobody can say.
    """
    if said is None:
        return None
    realms: ServedRealms | None = request.app.state.realms
    if realms is None or request.scope.get(NAMED) is not None:
        return said.hex
    tag = tag_in(said.hex)
    home = next((name for name in realms.parts if (tag_of(name) if name else "") == tag), None)
    if home is None or home == hub.settings.realm:
        return said.hex
    if (found := realms.parts[home].serving) is None:
        raise StoreUnavailable(f"Realm {home or DEFAULT}, where this worker was made, is away")
    try:
        with within(home):
            async with asyncio.timeout(LOOK_S):
                worker = await found.hub.workers.get(said.hex)
                serves = await found.hub.workers.serves(said.hex)
    except TimeoutError:
        where = f"Realm {home or DEFAULT}, where this worker was made"
        raise StoreUnavailable(f"{where}, does not answer in time") from None
    if worker.user != who.user:
        return said.hex  # which this realm does not know
    if serves:
        raise WorkerNotFound(
            f"Worker {said} serves what is in realm {home or DEFAULT}, and this is of realm "
            f"{hub.settings.realm or DEFAULT}: leave worker_id out, and a worker is made for it"
        )
    return None

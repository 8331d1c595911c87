"""The choice of a worker for clients that know no realms. Such a client makes its worker before it says of which room
its jobs are, so that the worker may be in the wrong realm."""

from __future__ import annotations

import asyncio
from uuid import UUID

from fastapi import Request

from hub.api.callers.caller import Caller
from hub.api.realms.others import ServedRealms
from hub.api.realms.search import LOOK_S
from hub.api.realms.subjects import NAMED
from hub.core import Hub
from hub.errors import StoreUnavailable, WorkerNotFound
from hub.observability.realms import within
from hub.settings.realms import DEFAULT, tag_in, tag_of


async def worker_for(request: Request, hub: Hub, who: Caller, said: UUID | None) -> str | None:
    """Return the id of the worker that is to serve the job or provider that a call registers; None when the call has to
    make a new worker.

    The caller may name a worker of its own in another realm. If that worker serves nothing yet, the result is None: the
    answer to the call names the new worker, and the old one expires without further heartbeats. Raises `WorkerNotFound`
    when the old worker serves something there already, and `StoreUnavailable` when its realm does not answer.
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
        return said.hex  # another user's worker: the caller finds that this realm does not know it
    if serves:
        raise WorkerNotFound(
            f"Worker {said} serves what is in realm {home or DEFAULT}, and this is of realm "
            f"{hub.settings.realm or DEFAULT}: leave worker_id out, and a worker is made for it"
        )
    return None

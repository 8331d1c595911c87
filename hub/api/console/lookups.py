"""Look-ups for the console alone: settings in force, the thing behind an id, and a lease with its token."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from hub.api.handling.context import in_ms
from hub.api.inputs import Audit, Document, Hub, Query, Serving
from hub.api.operations import unlisted
from hub.api.shapes import reading as bodies
from hub.api.shapes.answer import Answer
from hub.errors import MissingMember, NotFound
from hub.history.explained import Kind
from hub.history.why import KINDS, why
from hub.store.keys import key_part
from hub.tokens.secrets import ADMIN, RUNNER

router = APIRouter()


@router.get("/console/settings", **unlisted(page=True, who=(ADMIN,)))
async def settings(hub: Hub) -> Response:
    """Return every setting in force in this process and its source; no secret."""
    file = str(hub.settings.env_file) if hub.settings.env_file else None
    notes = hub.settings.notes
    return Answer({"settings": hub.settings.explained(), "notes": notes, "envFile": file, "now": in_ms(hub, 0)})


@router.get("/console/find", **unlisted(page=True, who=(RUNNER, ADMIN)))
async def find(serving: Serving, query: Query) -> Response:
    """Return every kind of thing that has this id, now or in an event."""
    hub, given = serving.hub, query.get("id", "").strip()
    if not given:
        raise MissingMember("missing id: ask with ?id=", member="id")
    looks = await asyncio.gather(*(_known(serving, kind, given) for kind in KINDS))
    kinds = [each for each in looks if each]
    label = given if await hub.store.read("ZSCORE", hub.store.keys.pools, given) is not None else None
    return Answer({"id": given, "kinds": kinds, "pool": label})


async def _known(serving: Serving, kind: Kind, given: str) -> dict[str, Any] | None:
    try:
        explained = await why(serving.hub, serving.live.history, kind, given, 1)
    except NotFound:
        return None
    return {"kind": kind, "id": explained.id, "state": explained.now.state}


@router.get("/console/leases/{slot}", **unlisted(page=True, least="operator", who=(RUNNER, ADMIN)))
async def lease(hub: Hub, slot: str) -> Response:
    """Return a lease with its token: a call names the token to end this lease and no later one."""
    found = await hub.leases.live.find(key_part(slot))
    token = await hub.store.read("HGET", hub.store.keys.session(key_part(slot)), "leaseToken")
    if found is None or not token:
        raise NotFound(f"Slot {slot[:100]} is not lent.")
    return Answer(
        {
            "slot": found.slot, "label": found.label, "pool": found.pool, "run": found.run, "node": found.node,
            "since": found.borrowed_at, "secondsLeft": found.left_ms / 1000, "token": token, "now": in_ms(hub, 0),
            "graceSeconds": hub.agreed.holds.grace_ms / 1000,
        }
    )  # fmt: skip


@router.post("/console/leases/{slot}/end", **unlisted(page=True, who=(RUNNER, ADMIN)))
async def end_lease(hub: Hub, slot: str, document: Document, audit: Audit) -> Response:
    """End the lease with this `leaseToken`. Its holder is told and has the grace; with `force` none."""
    token, label = bodies.text(document, "leaseToken") or "", bodies.text(document, "labelKey") or ""
    if not token:
        raise MissingMember("missing leaseToken: GET /console/leases/{slot} tells it", member="leaseToken")
    revokes = "2" if document.get("force") is True else "1"
    word, _, run = await hub.leases.give_back(key_part(slot), label, token, revokes=revokes)
    if word == "returned":
        await audit.write("session", "session.revoke", slotId=slot, runId=run)
    return Answer({"slot": slot, "ended": word == "returned", "word": word})

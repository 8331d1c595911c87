"""The endpoint that lists the realms of a hub: where the store of each is, whether it answers, and which calls belong
to the realm."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from fastapi import APIRouter, Request

from hub.api.dispatch.part import Part
from hub.api.dispatch.realms import Realms
from hub.api.inputs import Hub
from hub.api.operations import EVERYTHING, operation
from hub.api.shapes.answer import Answer
from hub.api.shapes.operators import RealmShape, RealmsShape
from hub.settings import mask_url
from hub.settings.realms import DEFAULT, Realm
from hub.tokens.secrets import ADMIN, RUNNER
from hub.wire import time_at, time_text

State = Literal["open", "away", "opening"]
router = APIRouter(tags=["operations"])


@router.get("/realms", **operation("listRealms", (RUNNER, ADMIN), about=EVERYTHING))
async def realms(request: Request, hub: Hub) -> Answer[RealmsShape]:
    """List the realms that this hub serves: first the realm without a name, as `default`, then the others in the order
    of their rules. For a realm whose store does not answer, `error` says why, and `asOf` when it answered last."""
    found: Realms | None = request.app.state.realms
    if found is None:
        await hub.store.read("PING")
        where = mask_url(hub.settings.redis_url) if hub.settings.redis_url else "embedded"
        now = time_text(datetime.now(UTC))
        return Answer(RealmsShape(rules=None, realms=[_shown(DEFAULT, where, "open", now, None, None)]))
    await found.look()
    return Answer(RealmsShape(rules=found.rules.version, realms=[_part(found, part) for part in found.parts.values()]))


def _part(found: Realms, part: Part) -> RealmShape:
    seen = time_at(part.seen_s) if part.seen_s else None
    state: State = "opening" if part.serving is None else "away" if part.error else "open"
    known = found.declared(part.name)
    return _shown(part.name or DEFAULT, part.where, state, seen, part.error or None, known)


def _shown(name: str, url: str, state: State, seen: str | None, error: str | None, known: Realm | None) -> RealmShape:
    others = [*known.spill_to] if known else []
    return RealmShape(
        name=name,
        url=url,
        state=state,
        asOf=seen,
        error=error,
        labels=[*known.labels] if known else [],
        rooms=[*known.rooms] if known else [],
        nodes=[*known.nodes] if known else [],
        spillTo=others,
        spillAfterSeconds=known.spill_after_s if known and others else None,
    )

"""Telling holders at once that a grant of theirs is over."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from hub.api import bodies, schemas
from hub.api.auth import RUNNER
from hub.api.deps import allowed, is_gone, reply, serving
from hub.errors import InvalidValue, MissingMember
from hub.store.keys import key_part

router = APIRouter(tags=["sessions"])
LEASES_MAX = 1000
WAIT_MAX_S = 30.0


@router.post("/leases/watch", openapi_extra=schemas.body(schemas.WATCH), responses=schemas.REFUSALS)
async def watch(request: Request) -> Response:
    """Wait until one of these leases is over: a node died, an operator ended it, or a drain did.

    Answers `over`, the leases that are, with a reason each, as soon as there is one; empty after `waitSeconds` (at most
    30, 0 to ask and not to wait). A slot whose lease ended early is not lent on before its holder has returned it, or
    `HUB_REVOKE_GRACE_SECONDS` are over: who listens here, stops and returns, never holds it beside somebody else.
    """
    hub = allowed(request, RUNNER)
    document = await bodies.read_body(request)
    wait_s, grants = _wait_s(document), _grants(document)

    async def nobody_listens() -> bool:
        return serving(request).stopping or await is_gone(request)

    limit_s = min(wait_s, hub.settings.request_timeout_s * 0.9)
    over = await hub.watching.wait(grants, limit_s, nobody_listens)
    return reply({"over": [{"browserId": slot, "leaseToken": token, "reason": why} for slot, token, why in over]})


def _wait_s(document: dict[str, Any]) -> float:
    if document.get("waitSeconds") is None:
        return 0.0
    wait_s = bodies.seconds(document, "waitSeconds")
    if wait_s is None or not 0 <= wait_s <= WAIT_MAX_S:
        raise InvalidValue(f"waitSeconds is a number from 0 to {WAIT_MAX_S:.0f}", member="waitSeconds")
    return wait_s


def _grants(document: dict[str, Any]) -> list[tuple[str, str]]:
    given = document.get("leases")
    if not isinstance(given, list) or not given:
        raise MissingMember("missing leases: name at least one, as {browserId, leaseToken}", member="leases")
    if len(given) > LEASES_MAX:
        raise InvalidValue(f"leases has {len(given)} entries; at most {LEASES_MAX} in one call", member="leases")
    found = []
    for each in given:
        one = each if isinstance(each, dict) else {}
        slot, token = bodies.text(one, "browserId", "slotId"), bodies.text(one, "leaseToken")
        if not (slot and slot.strip() and token):
            raise MissingMember("each of leases needs browserId and leaseToken", member="leases")
        found.append((key_part(slot.strip()), token))
    return found

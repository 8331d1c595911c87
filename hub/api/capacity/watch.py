"""Telling holders at once that a lease of theirs is over."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from hub.api import bodies
from hub.api.auth import RUNNER
from hub.api.capacity.requests import WatchBody
from hub.api.contract import lending
from hub.api.contract.operation import operation
from hub.api.deps import allowed, is_gone, reply, serving
from hub.store.keys import key_part

router = APIRouter(tags=["sessions"])


@router.post("/leases/watch", **operation("watchLeases", (RUNNER,), lending.Watched, body=WatchBody))
async def watch(request: Request) -> Response:
    """Wait until one of these leases is over: a node died, an operator ended it, or a drain did.

    Answers `over`, the leases that are, with a reason each, as soon as there is one; empty after `waitSeconds` (at most
    30, 0 to ask and not to wait). A slot whose lease ended early is not lent on before its holder has returned it, or
    `HUB_REVOKE_GRACE_SECONDS` are over: who listens here, stops and returns, never holds it beside somebody else.
    """
    hub = allowed(request, RUNNER)
    said = WatchBody.read(await bodies.read_body(request))
    leases = [(key_part(slot), token) for slot, token in said.leases]

    async def nobody_listens() -> bool:
        return serving(request).stopping or await is_gone(request)

    limit_s = min(said.wait_seconds, hub.settings.request_timeout_s * 0.9)
    over = await hub.watching.wait(leases, limit_s, nobody_listens)
    return reply({"over": [{"browserId": slot, "leaseToken": token, "reason": why} for slot, token, why in over]})

"""How a node is set up, as it says itself."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from hub.api import schemas
from hub.api.auth import ADMIN
from hub.api.deps import allowed, reply
from hub.capacity.nodes.asking import environment

router = APIRouter(tags=["operations"])


_SILENT = schemas.refused(500, "The node gives no answer; one that refuses is answered with its own status.")


@router.get("/diagnostics/worker-env/{node_id:path}", responses={**schemas.REFUSALS, **_SILENT})
async def worker_env(request: Request, node_id: str) -> Response:
    """The environment of a registered node, asked of the node itself; its refusal comes with its status."""
    hub = allowed(request, ADMIN)
    node = await hub.nodes.get(node_id)
    secret = hub.settings.node_secret
    first = secret.get_secret_value().split(",")[0].strip() if secret else ""
    return reply(await environment(node.id, node.base_url, first))

"""Nodes that join: with a token they share, each makes one of its own, which speaks for it alone."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from hub.api import bodies, schemas
from hub.api.auth import HEADER
from hub.api.credentials import origin
from hub.api.deps import reply, serving
from hub.api.identity import bearer
from hub.errors import InvalidValue, MissingMember, Unauthorized
from hub.nodes.models import check_node_id
from hub.tokens.models import JOIN, read_digest

router = APIRouter(tags=["nodes"])
_WISH: dict[str, Any] = {
    "type": "object",
    "required": ["nodeId", "sha256"],
    "properties": {
        "nodeId": {"type": "string", "minLength": 1, "maxLength": 512},
        "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$", "description": "of a secret the node has made up"},
    },
}


@router.post("/node/join", status_code=201, openapi_extra=schemas.body(_WISH), responses=schemas.REFUSALS)
async def join(request: Request) -> Response:
    """Make a token for the node that calls, in exchange for the token it shows, which is one to join with.

    Once: 409 `node-taken` when the node has a token already, is registered, or had its token revoked within a week. A
    repeat with the same secret changes nothing.
    """
    found = serving(request)
    shown = bearer(request.headers.getlist("authorization")) or request.headers.get(HEADER, "")
    holder = await found.holders.resolve(shown)
    if holder is None or not holder.active or holder.kind != JOIN:
        raise Unauthorized()
    document = await bodies.read_body(request)
    given = bodies.text(document, "nodeId")
    if given is None:
        raise MissingMember("missing nodeId: the node that joins", member="nodeId")
    node = check_node_id(given)
    if document.get("sha256") is None:
        raise MissingMember("missing sha256: the digest of a secret the node has made up", member="sha256")
    try:
        digest = read_digest(document["sha256"])
    except ValueError as error:
        raise InvalidValue(f"sha256 {error}", member="sha256") from None
    token = await found.hub.tokens.join(node, digest)
    await found.hub.audit.write("node", "join", actor=node, **await origin(request), id=token.id)
    return reply({"nodeId": node, "id": token.id}, status=201)

"""Nodes that join: with a token they share, each makes one of its own, which speaks for it alone."""

from __future__ import annotations

from fastapi import APIRouter, Request

from hub.api.callers.admission import hub_of, speaker_of
from hub.api.callers.credentials import origin
from hub.api.operations import TOKEN, Subject, operation
from hub.api.shapes import reading as bodies
from hub.api.shapes.answer import Answer
from hub.api.shapes.node_bodies import JoinBody
from hub.api.shapes.nodes import JoinedShape
from hub.errors import NodeTaken

router = APIRouter(tags=["nodes"])


@router.post(
    "/node/join",
    **operation(
        "joinNode",
        (TOKEN,),
        status=201,
        body=JoinBody,
        refusals=(NodeTaken,),
        about=Subject("node", in_body=True),
        joins=True,
    ),
)
async def join(request: Request) -> Answer[JoinedShape]:
    """Make a token for the node that calls, in exchange for the token it shows, which is one to join with.

    Once: 409 `node-taken` when the node has a token already, is registered, or had its token revoked within a week. A
    repeat with the same secret changes nothing. The token lives until it is revoked or was not shown for
    `HUB_NODE_TOKEN_DAYS`; one whose node does not register within an hour is forgotten, and a token to join with makes
    at most 1,000 of those.
    """
    who, hub = speaker_of(request), hub_of(request)
    said = JoinBody.read(await bodies.read_body(request))
    node = said.node_id
    token = await hub.tokens.join(node, said.sha256, who.token, kept=said.kept)
    await hub.audit.write("node", "join", actor=node, **await origin(request), id=token.id)
    return Answer(JoinedShape(nodeId=node, id=token.id), status=201)

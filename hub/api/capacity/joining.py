"""Nodes that join: a token for joining is shared by many nodes, and each node exchanges it for a token that speaks for
this node alone."""

from __future__ import annotations

from fastapi import APIRouter

from hub.api.inputs import Audit, Caller, Hub, Sent
from hub.api.operations import TOKEN, Subject, operation
from hub.api.shapes.answer import Answer
from hub.api.shapes.node_bodies import JoinBody
from hub.api.shapes.nodes import JoinedShape
from hub.errors import NodeTaken

router = APIRouter(tags=["nodes"])


@router.post(
    "/node/join",
    **operation(
        "joinNode", (TOKEN,), status=201, refusals=(NodeTaken,), about=Subject("node", in_body=True), joins=True
    ),
)
async def join(hub: Hub, caller: Caller, said: Sent[JoinBody], audit: Audit) -> Answer[JoinedShape]:
    """Make a token for the node that calls, in exchange for the token that it shows, which is a token for joining.

    A node joins once: 409 `node-taken` when the node has a token already, is registered, or had its token revoked
    within a week. A repeat with the same secret changes nothing. The new token is valid until it is revoked or was not
    shown for `HUB_NODE_TOKEN_DAYS`. If its node does not register within an hour, the token is forgotten; a token for
    joining may have at most 1,000 such tokens.
    """
    node = said.node_id
    token = await hub.tokens.join(node, said.sha256, caller.token, kept=said.kept)
    await audit.write("node", "join", actor=node, id=token.id)
    return Answer(JoinedShape(nodeId=node, id=token.id), status=201)

"""The endpoint for the environment of a node, as the node itself reports it."""

from __future__ import annotations

from fastapi import APIRouter

from hub.api.inputs import Hub
from hub.api.operations import operation
from hub.api.shapes.answer import Answer
from hub.api.shapes.operators import NodeEnvironmentShape
from hub.capacity.nodes.asking import NodeRefused, NodeSilent, environment
from hub.errors import UnknownNode
from hub.tokens.secrets import ADMIN

router = APIRouter(tags=["operations"])


@router.get(
    "/diagnostics/worker-env/{node_id:path}",
    **operation("getNodeEnvironment", (ADMIN,), refusals=(UnknownNode, NodeSilent, NodeRefused), least="operator"),
)
async def worker_env(hub: Hub, node_id: str) -> Answer[NodeEnvironmentShape]:
    """Return the environment of a registered node, which the hub asks the node itself for. A refusal by the node is
    passed on with its status."""
    node = await hub.nodes.get(node_id)
    secret = hub.settings.node_secret
    first = secret.get_secret_value().split(",")[0].strip() if secret else ""
    return Answer(await environment(node.id, node.base_url, first))

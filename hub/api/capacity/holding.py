"""The endpoints that hold slots which are unwell, and release them: for their nodes, and for operators."""

from __future__ import annotations

from fastapi import APIRouter

from hub.api.capacity.nodes import OwnNode, Process
from hub.api.inputs import Audit, Hub, Sent
from hub.api.operations import TOKEN, operation
from hub.api.shapes import parameters as p
from hub.api.shapes.answer import Answer
from hub.api.shapes.hold_bodies import HoldBody
from hub.api.shapes.nodes import HoldShape
from hub.api.shapes.operator_bodies import CordonBody
from hub.capacity.holds import Hold, UnknownSlot
from hub.errors import Forbidden, InvalidValue, Superseded, UnknownNode
from hub.tokens.secrets import ADMIN, NODE

router = APIRouter()
_REFUSALS = (InvalidValue, Forbidden, UnknownSlot, UnknownNode, Superseded)


@router.post(
    "/node/{node_id:path}/slots/{slot_id}/hold",
    tags=["nodes"],
    **operation("holdSlot", (NODE, TOKEN), refusals=_REFUSALS),
)
async def hold(hub: Hub, node: OwnNode, body: Sent[HoldBody], slot_id: str) -> Answer[HoldShape]:
    """Stop lending a slot that is unwell. A lease of it goes on, and its holder is told the reason. A heartbeat can say
    the same of all slots of the node, with `held`."""
    return _shown(slot_id, await hub.holds.by_node(node, slot_id, body.reason, **body.caller()._asdict()))


@router.delete(
    "/node/{node_id:path}/slots/{slot_id}/hold",
    tags=["nodes"],
    **operation("releaseSlot", (NODE, TOKEN), p.NUMBER, refusals=_REFUSALS),
)
async def release(hub: Hub, node: OwnNode, process: Process, slot_id: str) -> Answer[HoldShape]:
    """Lend a slot again that its node has held. It stays held back while an operator holds it."""
    return _shown(slot_id, await hub.holds.by_node(node, slot_id, "", **process.caller()._asdict()))


@router.post(
    "/admin/slots/{slot}/hold", tags=["admin"], **operation("holdSlotByHand", (ADMIN,), refusals=(UnknownSlot,))
)
async def hold_by_hand(hub: Hub, body: Sent[CordonBody], audit: Audit, slot: str) -> Answer[HoldShape]:
    """Stop lending a slot, for a reason. A lease of it goes on, and its holder is told. A repeated call replaces the
    reason. The hold survives the loss of a store."""
    found = await hub.holds.by_operator(slot, body.reason)
    await audit.write("admin", "slot.hold", slotId=slot, nodeId=found.node, reason=body.reason)
    return _shown(slot, found)


@router.delete(
    "/admin/slots/{slot}/hold", tags=["admin"], **operation("releaseSlotByHand", (ADMIN,), refusals=(UnknownSlot,))
)
async def release_by_hand(hub: Hub, audit: Audit, slot: str) -> Answer[HoldShape]:
    """Lend a slot again that an operator has held. It stays held back while its node holds it."""
    found = await hub.holds.by_operator(slot, "")
    await audit.write("admin", "slot.release", slotId=slot, nodeId=found.node)
    return _shown(slot, found)


def _shown(slot: str, found: Hold) -> Answer[HoldShape]:
    shown = HoldShape(browserId=slot, nodeId=found.node, lent=found.lent)
    if found.reason:
        shown["held"], shown["heldBy"] = found.reason, found.by
    if found.late:
        shown["note"] = "a later call said otherwise"
    return Answer(shown)

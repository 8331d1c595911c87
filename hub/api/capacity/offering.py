"""Slots that a node publishes, as they are asked for, and as the node is answered."""

from __future__ import annotations

from typing import Any

from hub.api.capacity import reading
from hub.api.shapes.node_bodies import PublishBody
from hub.capacity.labels import Label, parse_kinds, parse_label
from hub.capacity.models import Offered, Slot
from hub.core import Hub

_REFUSED = {
    "taken": "another node has published a slot with this id: node {other} has it, and node {node} offers it too",
    "reserved": "an id of the form NODE-label-number belongs to NODE: this one to node {other}, not to node {node}",
    "claimed": "another node has published a slot with this id, and it is lent: node {other} has it until that lease "
    "ends, then node {node} gets it, which the id names",
    "late": "a later call of the same process has withdrawn it",
}


async def publish(hub: Hub, node_id: str, slots: list[Slot], said: PublishBody) -> list[dict[str, Any]]:
    """Put slots on offer; a row per slot, as the node is answered."""
    offered = await hub.pools.publish(node_id, slots, said.policy, **said.caller()._asdict())
    return [_shown(node_id, slot, each) for slot, each in zip(slots, offered, strict=True)]


def publication(hub: Hub, node_id: str, said: PublishBody, document: dict[str, Any]) -> list[Slot]:
    """The slots that a body names. Raises `InvalidValue`, `InvalidLabel` or `MissingMember`."""
    kinds = parse_kinds(hub.settings.label_kinds)
    labels: dict[str, Label] = {name: parse_label(name, kinds) for name in reading.named_labels(said)}
    return reading.slots(said, document, node_id, labels)


def _shown(node_id: str, slot: Slot, offered: Offered) -> dict[str, Any]:
    row = {"browserId": slot.id, "labelKey": slot.pool, "status": offered.word}
    if offered.word in _REFUSED:
        reason = _REFUSED[offered.word].format(node=node_id, other=offered.other)
        row |= {"status": "refused", "reason": reason}
    return row

"""The slots that a node publishes: read from the body of a call, put on offer, and answered slot by slot."""

from __future__ import annotations

import hashlib
from typing import Any

from hub.api.shapes.hold_bodies import SLOTS_MAX
from hub.api.shapes.nodes import PublishedSlotShape
from hub.api.shapes.slot_bodies import PublishBody, SlotBody
from hub.capacity.labels import Label, parse_kinds, parse_label
from hub.capacity.models import Offered, PublishedSlot, check_slot_id, slot_item
from hub.capacity.nodes.models import LentFor
from hub.core import Hub
from hub.errors import BadInput, InvalidValue

_REFUSED = {
    "taken": "another node has published a slot with this id: node {other} has it, and node {node} offers it too",
    "reserved": "an id of the form NODE-label-number belongs to NODE: this one to node {other}, not to node {node}",
    "claimed": "another node has published a slot with this id, and it is lent: node {other} has it until that lease "
    "ends, then node {node} gets it, which the id names",
    "late": "a later call of the same process has withdrawn it",
}


async def publish(hub: Hub, node_id: str, slots: list[PublishedSlot], said: PublishBody) -> list[PublishedSlotShape]:
    """Put slots on offer; return a row for each slot, as the node is answered."""
    caller = said.caller()._asdict()
    offered = await hub.pools.publish(node_id, slots, said.policy, says_held=said.held is not None, **caller)
    return [_shown(node_id, slot, each) for slot, each in zip(slots, offered, strict=True)]


def publication(hub: Hub, node_id: str, said: PublishBody, document: dict[str, Any]) -> list[PublishedSlot]:
    """Return the slots that a body names, in its `slots` and `pools`. Raises `InvalidValue`, `InvalidLabel` or
    `MissingMember`."""
    kinds = parse_kinds(hub.settings.label_kinds)
    listed = [(slot.item, slot.read()) for slot in said.slots]
    labels = {name: parse_label(name, kinds) for name in {*said.pools, *(slot.label_key for _, slot in listed)}}
    common = {name: document[name] for name in ("webSocketEndpoint", "endpoint") if document.get(name) is not None}
    for label, count in said.pools.items():
        named = (_pool_slot_id(node_id, labels[label].text, number) for number in range(1, count + 1))
        items = [{**common, "labelKey": label, "slotId": name} for name in named]
        listed += [(item, SlotBody.read(item)) for item in items]
    if len(listed) > SLOTS_MAX:
        raise InvalidValue(f"at most {SLOTS_MAX} slots a call; send the rest with another", member="slots")
    found = [_slot(node_id, item, slot, labels[slot.label_key], said) for item, slot in listed]
    if len({slot.id for slot in found}) < len(found):
        raise InvalidValue("the same slot id stands there twice", member="slots")
    return found


def _shown(node_id: str, slot: PublishedSlot, offered: Offered) -> PublishedSlotShape:
    word = offered.word
    if word not in ("published", "unchanged", "lent"):
        reason = _REFUSED[word].format(node=node_id, other=offered.other)
        return PublishedSlotShape(browserId=slot.id, labelKey=slot.pool, status="refused", reason=reason)
    shown = PublishedSlotShape(browserId=slot.id, labelKey=slot.pool, status=word)
    if offered.note:
        shown["note"] = offered.note
    return shown


def _slot(node_id: str, item: dict[str, Any], said: SlotBody, label: Label, of: PublishBody) -> PublishedSlot:
    if "node_id" in said.model_fields_set and said.node_id.strip() != node_id:
        raise InvalidValue(f"slot {said.slot_id} names another node, {said.node_id!r}", member="nodeId")
    idle_s = said.idle_timeout_seconds
    text = slot_item(node_id, said.slot_id, label.segments[1], item)
    idle_ms = "" if idle_s is None else str(int(idle_s * 1000))
    token, asked = of.lent.get(said.slot_id, ""), of.lent_for.get(said.slot_id, LentFor())
    fresh, held = of.freshness(said.slot_id), of.holds(said.slot_id)
    like = said.attributes, said.warm
    return PublishedSlot(said.slot_id, label.text, text, idle_ms, token, asked, fresh, held, *like)


def _pool_slot_id(node_id: str, label: str, number: int) -> str:
    """Return the id of the n-th slot that a node has in a pool. The same arguments always give the same id, so that a
    repeated publication changes nothing."""
    whole = f"{node_id}-{label.replace(':', '.')}-{number}"
    try:
        return check_slot_id(whole)
    except BadInput:
        digest = hashlib.sha256(f"{node_id}\0{label}".encode()).hexdigest()[:24]
        return f"slot-{digest}-{number}"

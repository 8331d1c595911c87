"""Bodies of capacity that are read by hand, which is faster: as the models in `hub.api.shapes` do it."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

from hub.api.shapes.lease_bodies import BorrowBody, ReturnBody
from hub.api.shapes.node_bodies import NUMBER_MAX, SLOTS_MAX, PublishBody, SlotBody
from hub.api.shapes.readers import as_seconds, as_text, whole_number
from hub.api.shapes.reading import text
from hub.capacity.labels import Label
from hub.capacity.models import Slot, check_slot_id, slot_item
from hub.capacity.nodes.models import Beat, LentFor, check_incarnation, check_node_id
from hub.errors import BadInput, InvalidJson, InvalidValue, MissingMember

_reason = ReturnBody.reader("reason")
_run_name, _priority = BorrowBody.reader("runName"), BorrowBody.reader("priority")
_realms = BorrowBody.reader("realms")
_limit, _slot_given = BorrowBody.reader("maxWaitSeconds"), ReturnBody.reader("browserId")


class Borrowing(NamedTuple):
    """What `BorrowBody` says beside the label."""

    ttl_s: float | None
    run_name: str
    run_id: Any
    priority: int
    limit_s: float | None
    waits_for_pool: bool
    realms: tuple[str, ...]


class Returning(NamedTuple):
    """What `ReturnBody` says."""

    label: str
    slot: str
    token: str
    revokes: str
    run_id: Any
    only_run: bool
    reason: str


def borrowing(document: dict[str, Any]) -> Borrowing:
    """A borrow, read by hand: the same as `BorrowBody` reads. Raises `InvalidValue`."""
    get = document.get
    ttl, name, priority, limit = get("ttlSeconds"), get("runName"), get("priority"), get("maxWaitSeconds")
    return Borrowing(
        None if ttl is None else as_seconds(ttl),
        "" if name is None else _run_name(name),
        get("runId"),
        0 if priority is None else _priority(priority),
        None if limit is None else _limit(limit),
        get("waitForPool") is not False,
        () if (realms := get("realms")) is None else _realms(realms),
    )


def returning(document: dict[str, Any]) -> Returning:
    """A return, read by hand: the same as `ReturnBody` reads. Raises `InvalidValue` and `MissingMember`."""
    get = document.get
    label, slot, token = get("labelKey"), get("browserId"), get("leaseToken")
    if slot is None:
        slot = get("slotId")
    if label is None or slot is None:
        raise MissingMember(*ReturnBody.missing["labelKey"][:1], member=ReturnBody.missing["labelKey"][1])
    return Returning(
        label if label.__class__ is str else as_text(label, "labelKey"),
        _slot_given(slot),
        "" if token is None else token if token.__class__ is str else as_text(token, "leaseToken"),
        "2" if get("force") is True else "1" if get("revoke") is True else "",
        get("runId"),
        get("onlyRun") is True,
        "" if get("reason") is None else _reason(get("reason")),
    )


def beat(document: Any) -> Beat:
    """A heartbeat, read by hand: the same as `BeatBody` reads. Raises `InvalidValue` or `MissingMember`."""
    if not isinstance(document, dict):
        raise InvalidJson("a heartbeat must be a JSON object")
    node_id = text(document, "nodeId", "NodeId")
    if node_id is None:
        raise MissingMember("missing nodeId", member="nodeId")
    version = document.get("version", 0)
    recycled = document.get("recycled") or ()
    if recycled and not (
        isinstance(recycled, list) and len(recycled) <= SLOTS_MAX and all(isinstance(slot, str) for slot in recycled)
    ):
        raise InvalidValue(f"recycled must be a list of at most {SLOTS_MAX} slot ids", member="recycled")
    if version.__class__ is not int or not 0 <= version < NUMBER_MAX:
        version = whole_number(0 if version is None else version, "version", 0, NUMBER_MAX)
    said = document.get("incarnation")
    incarnation = "" if said is None else check_incarnation(said)
    return Beat(check_node_id(node_id), version, tuple(check_slot_id(slot) for slot in recycled), incarnation)


def slots(said: PublishBody, document: dict[str, Any], node_id: str, labels: dict[str, Label]) -> list[Slot]:
    """The slots of a publication, from `slots` and `pools`, with the tokens of `lent`. `labels` holds parsed ones."""
    listed = list(said.slots)
    common = {name: document[name] for name in ("webSocketEndpoint", "endpoint") if document.get(name) is not None}
    for label, count in said.pools.items():
        listed += [
            {**common, "labelKey": label, "slotId": _pool_slot_id(node_id, labels[label].text, n)}
            for n in range(1, count + 1)
        ]
    if len(listed) > SLOTS_MAX:
        raise InvalidValue(f"at most {SLOTS_MAX} slots a call; send the rest with another", member="slots")
    found = [_slot(node_id, each, labels, said) for each in listed]
    if len({slot.id for slot in found}) < len(found):
        raise InvalidValue("the same slot id stands there twice", member="slots")
    return found


def named_labels(said: PublishBody) -> set[str]:
    """Every label text a publication names."""
    return {*said.pools, *(SlotBody.read(each).label_key for each in said.slots)}


def _slot(node_id: str, raw: dict[str, Any], labels: dict[str, Label], of: PublishBody) -> Slot:
    said = SlotBody.read(raw)
    if "node_id" in said.model_fields_set and said.node_id.strip() != node_id:
        raise InvalidValue(f"slot {said.slot_id} names another node, {said.node_id!r}", member="nodeId")
    label, idle_s = labels[said.label_key], said.idle_timeout_seconds
    item = slot_item(node_id, said.slot_id, label.segments[1], raw)
    idle_ms = "" if idle_s is None else str(int(idle_s * 1000))
    token, asked = of.lent.get(said.slot_id, ""), of.lent_for.get(said.slot_id, LentFor())
    return Slot(said.slot_id, label.text, item, idle_ms, token, asked)


def _pool_slot_id(node_id: str, label: str, number: int) -> str:
    """The name the hub gives the n-th slot of a pool of a node: always the same, so that a repeat changes nothing."""
    whole = f"{node_id}-{label.replace(':', '.')}-{number}"
    try:
        return check_slot_id(whole)
    except BadInput:
        digest = hashlib.sha256(f"{node_id}\0{label}".encode()).hexdigest()[:24]
        return f"slot-{digest}-{number}"

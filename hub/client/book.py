"""What a node knows about itself: its slots, which of them are lent, and what the hub asked it to do. No I/O."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, TypedDict

# A hub takes 1000 slots and 64 KiB in one call by default; what the rest of a registration needs is left free.
BITE_SLOTS = 1000
BITE_BYTES = 48 * 1024
ACKNOWLEDGED_AT_ONCE = 1000


class AgentOptions(TypedDict, total=False):
    """What `NodeAgent` and `SyncNodeAgent` may be given besides the id of the node."""

    slots: Iterable[Mapping[str, Any]]
    """`{"labelKey": "gpu:a100", "slotId"?: ..., "endpoint"?: ..., anything else the borrower should see}`."""
    pools: Mapping[str, int]
    """Label -> how many slots; they are named `<node>-<label with dots>-<1..n>`."""
    labels: Mapping[str, str]
    """Facts about the node, such as region or os."""
    apps: Iterable[str]
    base_url: str
    """Where the node itself can be reached."""
    capacity: int
    """How much the node says it can do; the number of its slots unless given."""
    url: str
    """The hub; `HUB_URL` or http://127.0.0.1:8080 unless given."""
    secret: str
    """The node secret; `HUB_NODE_SECRET` unless given."""
    policy: Literal["recycle", "reuse"]
    """Whether the hub asks for a slot to be recycled after each return (its default) or lends it again as it is."""
    on_recycle: Callable[[str], Any]
    """Called with a slot id that should be made fresh. May be async. Answers the slot that replaces it, or None when
    the same slot is ready again."""
    on_drain: Callable[[bool], Any]
    """Called with True when the hub stops lending from this node, with False when it starts again. May be async."""
    on_lent: Callable[[Mapping[str, str]], Any]
    """Called with slot id -> fencing token of all that is lent, whenever that changed. May be async."""
    transport: Any
    """A `httpx.AsyncBaseTransport` instead of the network, for tests."""


class Book:
    """The slots of one node and its share of the conversation with the hub."""

    def __init__(self, node_id: str, options: AgentOptions) -> None:
        self.node_id = node_id
        self.slots: dict[str, dict[str, Any]] = {}
        self.lent: dict[str, str] = {}
        self.version = 0
        self.draining = False
        self.marked: set[str] = set()  # slots the hub wants recycled
        self.acknowledged: set[str] = set()  # recycled; the hub has not been told yet
        self.unpublished: set[str] = set()  # ours, but the hub may not have them
        self.unwithdrawn: set[str] = set()  # no longer ours, but the hub may have them
        self._capacity = options.get("capacity")
        policy = options.get("policy")
        self._policy = {"policy": policy} if policy else {}
        self._facts: dict[str, Any] = {
            "nodeId": node_id,
            "apps": list(options.get("apps", ())),
            "labels": dict(options.get("labels", {})),
        }
        if base_url := options.get("base_url"):
            self._facts["baseUrl"] = base_url
        self.enter(options.get("slots", ()))
        for label, count in options.get("pools", {}).items():
            self.enter(_pool(node_id, label, count))

    def enter(self, slots: Iterable[Mapping[str, Any]]) -> list[str]:
        """Take slots in as ours, naming those without an id; their ids."""
        ids = []
        for given in slots:
            slot = dict(given)
            slot_id = str(slot.pop("browserId", None) or slot.pop("slotId", None) or uuid.uuid4().hex)
            slot.pop("slotId", None)
            self.slots[slot_id] = {"slotId": slot_id, **slot}
            self.unwithdrawn.discard(slot_id)
            ids.append(slot_id)
        return ids

    def forget(self, slot_id: str) -> None:
        """The slot is not ours any more."""
        for known in (self.slots, self.lent):
            known.pop(slot_id, None)
        self.unpublished.discard(slot_id)
        self.marked.discard(slot_id)

    def registration(self) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The body that registers the node with as many slots as fit, and the bodies that publish the others.

        Lent slots go first: a hub whose store was lost must hear of them before it lends anything of this node.
        """
        capacity = len(self.slots) if self._capacity is None else self._capacity
        bites = list(self.bites(sorted(self.slots, key=lambda slot_id: slot_id not in self.lent)))
        first = bites.pop(0) if bites else {}
        return {**self._facts, "capacity": capacity, **self._policy, **first}, bites

    def bites(self, ids: Iterable[str]) -> Iterator[dict[str, Any]]:
        """The bodies that publish these slots, each small enough for one call."""
        bite: list[str] = []
        size = 0
        for slot_id in ids:
            length = len(json.dumps(self.slots[slot_id])) + 2 * len(slot_id) + 80
            if bite and (len(bite) == BITE_SLOTS or size + length > BITE_BYTES):
                yield self._bite(bite)
                bite, size = [], 0
            bite.append(slot_id)
            size += length
        if bite:
            yield self._bite(bite)

    def _bite(self, ids: list[str]) -> dict[str, Any]:
        lent = {slot_id: self.lent[slot_id] for slot_id in ids if slot_id in self.lent}
        return {"slots": [self.slots[slot_id] for slot_id in ids], **self._policy, **({"lent": lent} if lent else {})}

    def published(self, results: Iterable[Mapping[str, Any]]) -> None:
        """Take over what the hub answered for each slot it was given."""
        for result in results:
            slot_id = result["browserId"]
            self.unpublished.discard(slot_id)
            if result["status"] == "published":  # free as of now, whatever we remembered
                self.lent.pop(slot_id, None)

    def beat(self) -> dict[str, Any]:
        """The body of the next heartbeat."""
        recycled = sorted(self.acknowledged)[:ACKNOWLEDGED_AT_ONCE]
        return {"nodeId": self.node_id, "version": self.version, **({"recycled": recycled} if recycled else {})}

    def heard(self, beat: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        """Take over the answer of a node that is known to the hub."""
        self.acknowledged.difference_update(beat.get("recycled", ()))
        self.version = int(answer.get("version", 0))
        self.draining = bool(answer.get("drain"))
        wanted = set(answer.get("recycle", ()))
        if "lent" in answer:  # only then the answer is the full picture
            self.lent = dict(answer["lent"])
            self.marked = wanted
        else:
            self.marked |= wanted


def _pool(node_id: str, label: str, count: int) -> Iterator[dict[str, Any]]:
    # The names the hub itself gives to the slots of a pool that is published by number.
    label = ":".join(segment.strip() for segment in label.split(":"))
    for number in range(1, count + 1):
        yield {"slotId": f"{node_id}-{label.replace(':', '.')}-{number}", "labelKey": label}

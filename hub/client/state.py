"""What a node knows about itself: its slots, which of them are lent, and what the hub asked it to do. No I/O."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Literal, TypedDict

from hub.retries import now_s

# A hub takes 1000 slots and 64 KiB in one call by default; what the rest of a registration needs is left free.
BITE_SLOTS = 1000
BITE_BYTES = 48 * 1024
ACKNOWLEDGED_AT_ONCE = 1000


class AgentOptions(TypedDict, total=False):
    """The options of `NodeAgent` and `SyncNodeAgent`."""

    slots: Iterable[Mapping[str, Any]]
    """`{"label": "gpu:a100", "slotId"?: ..., "address"?: ..., "kind"?: ..., anything else the borrower should see}`;
    before, these were `labelKey`, `browserId`, `endpoint` and `browserType`."""
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
    join_token: str
    """What the node joins with when the hub refuses its secret, or it has none: it makes a token of its own, which
    speaks for it alone; `HUB_JOIN_TOKEN` unless given."""
    token_file: str
    """Where that token, or one that `hub token create --node` made, is kept; `HUB_NODE_TOKEN_FILE` unless given."""
    policy: Literal["recycle", "reuse"]
    """Whether the hub asks for a slot to be recycled after each return (its default) or lends it again as it is."""
    on_recycle: Callable[[str], Any]
    """Called with the id of a slot that should be made fresh and was taken off offer for that: nobody has it or can
    borrow it meanwhile. May be async. Answers the slot that replaces it, or None when the same slot is ready again;
    only that puts it back on offer. When it raises it is called again about a beat later, and the slot stays off offer
    until it succeeds. What it answers is ignored when the slot was withdrawn or published by hand meanwhile."""
    on_drain: Callable[[bool], Any]
    """Called with True when the hub stops lending from this node, with False when it starts again. May be async."""
    on_lent: Callable[[Mapping[str, str]], Any]
    """Called with slot id -> fencing token of all that is lent, as soon as that has changed. May be async."""
    max_silence: float
    """Seconds after which the hub is to miss a node whose program hangs: beats stop when the event loop has run nothing
    for so long, with `SyncNodeAgent` when `progress` was not called for so long, and go on when it is back. Never
    unless given: a program may be busy for as long as it likes."""
    pod: bool
    """Whether this node is all that its pod on Kubernetes is for: then the pod `POD_NAME` in `POD_NAMESPACE` gets the
    annotations by which a scale-down takes the idle. Off unless given; `hub agent` and `python -m hub.client` do."""
    transport: Any
    """A `httpx.AsyncBaseTransport` instead of the network, for tests; it is used in the thread of the agent."""


class AgentState:
    """The slots of one node and its share of the conversation with the hub."""

    def __init__(self, node_id: str, options: AgentOptions) -> None:
        self.node_id = node_id
        self.slots: dict[str, dict[str, Any]] = {}
        self.lent: dict[str, str] = {}
        self.lent_for: dict[str, dict[str, str]] = {}  # as what that was asked for: label and run, as the hub told it
        self.version = 0
        self.incarnation = uuid.uuid4().hex
        self.term = ""  # given to this incarnation by the hub
        self.offers = ""  # what the hub has of ours, in short, as of the last beat
        self.drain_call: dict[str, Any] | None = None  # the last drain or undrain, for a hub that has lost it
        self._told_s = 0.0  # when we were told of it
        self.refused: set[str] = set()  # ours, but another node's to the hub
        self.draining = False
        self.marked: set[str] = set()  # slots the hub wants recycled
        self.acknowledged: set[str] = set()  # recycled; the hub has not been told yet
        self.unpublished: set[str] = set()  # ours, but the hub may not have them
        self.unwithdrawn: set[str] = set()  # no longer ours, but the hub may have them
        self.rebuilding: dict[str, bool] = {}  # ours, being made fresh -> whether the hub has surely taken it off offer
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
        """Take slots in as ours, naming those without an id; their ids. All or, when one is no JSON object, none."""
        entered: dict[str, dict[str, Any]] = {}
        for given in slots:
            slot = dict(given)
            json.dumps(slot, allow_nan=False)  # one that cannot be sent would break every later call that lists it
            slot_id = str(slot.pop("browserId", None) or slot.pop("slotId", None) or uuid.uuid4().hex)
            slot.pop("slotId", None)
            entered[slot_id] = {"slotId": slot_id, **slot}
        self.slots.update(entered)
        for slot_id in entered:
            self.unwithdrawn.discard(slot_id)
            self.rebuilding.pop(slot_id, None)
        return list(entered)

    def forget(self, slot_id: str) -> None:
        """Forget a slot."""
        for known in (self.slots, self.lent, self.rebuilding):
            known.pop(slot_id, None)
        self.refused.discard(slot_id)
        self.unpublished.discard(slot_id)
        self.marked.discard(slot_id)

    def registration(self) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Return the body that registers the node with as many slots as fit, and the bodies that publish the others.

        Lent slots go first: a hub whose store was lost must hear of them before it lends anything of this node. Left
        out are those of which nothing is known to be lent and that are being made fresh, and those still to be
        published, which go by themselves: one of them that the hub never takes must not keep the node off its books.
        """
        capacity = len(self.slots) if self._capacity is None else self._capacity
        told = [slot_id for slot_id in self.slots if slot_id not in self.unpublished and not self._off_offer(slot_id)]
        batches = list(self.batches(sorted(told, key=lambda slot_id: slot_id not in self.lent)))
        first = batches.pop(0) if batches else {}
        named: dict[str, Any] = {"incarnation": self.incarnation, **({"term": self.term} if self.term else {})}
        if self.drain_call is not None:
            named["drainCall"] = self._drain_call()
        return {**self._facts, **named, "capacity": capacity, **self._policy, **first}, batches

    def registered(self, answer: Mapping[str, Any]) -> None:
        """Take over what the hub answered a registration, but for its slots: see `published`."""
        self.term = str(answer.get("term", ""))
        self.version = 0  # not the answer's: what the hub knew before is only told to who is behind
        self.lent |= answer.get("lent", {})  # of the process that was the node before
        self.lent_for |= answer.get("lentFor", {})

    def batches(self, ids: Iterable[str]) -> Iterator[dict[str, Any]]:
        """Return the bodies that publish these slots, each small enough for one call."""
        batch: list[str] = []
        size = 0
        for slot_id in ids:
            length = len(json.dumps(self.slots[slot_id])) + 2 * len(slot_id) + 80
            if slot_id in self.lent_for:
                length += len(json.dumps(self.lent_for[slot_id])) + len(slot_id)
            if batch and (len(batch) == BITE_SLOTS or size + length > BITE_BYTES):
                yield self._bite(batch)
                batch, size = [], 0
            batch.append(slot_id)
            size += length
        if batch:
            yield self._bite(batch)

    def _bite(self, ids: list[str]) -> dict[str, Any]:
        lent = {slot_id: self.lent[slot_id] for slot_id in ids if slot_id in self.lent}
        said: dict[str, Any] = {"slots": [self.slots[slot_id] for slot_id in ids], **self._policy}
        if lent:
            said["lent"] = lent
        if lent_for := {slot_id: self.lent_for[slot_id] for slot_id in lent if slot_id in self.lent_for}:
            said["lentFor"] = lent_for
        return said

    def published(self, results: Iterable[Mapping[str, Any]]) -> None:
        """Take over what the hub answered for each slot it was given."""
        for result in results:
            slot_id = result["browserId"]
            self.unpublished.discard(slot_id)
            self.refused.discard(slot_id)
            if result["status"] == "refused":
                self.refused.add(slot_id)
            free = result["status"] in ("published", "unchanged")  # when it was answered
            if free and self.lent.pop(slot_id, None) is not None:
                self.version = 0  # was it lent since then, the next beat is told

    def to_recycle(self) -> set[str]:
        """Return the slots to rebuild now; a lent slot is rebuilt when it comes back."""
        return self.marked - self.lent.keys()

    def to_rebuild(self) -> set[str]:
        """Return the own slots among them, and those whose rebuilding was begun and not ended."""
        return (self.to_recycle() | self.rebuilding.keys()) & self.slots.keys()

    def acknowledge(self) -> bool:
        """Take everything that should be made fresh as being so; whether there is anything to tell the hub."""
        self.acknowledged |= self.to_recycle()
        self.marked -= self.acknowledged
        return bool(self.acknowledged)

    def reserving(self, slot_id: str) -> None:
        """Note that the hub is asked to take the slot off offer; until it answers, it may or may not have done so."""
        self.rebuilding[slot_id] = False
        self.unpublished.discard(slot_id)

    def reserved(self, slot_id: str) -> None:
        """Note that the hub has taken the slot off offer: it has no holder."""
        self.rebuilding[slot_id] = True
        self.lent.pop(slot_id, None)

    def still_lent(self, slot_id: str, *, asked_before: bool) -> None:
        """Note that the hub has lent the slot and left it alone; it is rebuilt when it comes back."""
        self.rebuilding.pop(slot_id, None)
        if asked_before:  # without an answer; a registration since then may have left it out
            self.unpublished.add(slot_id)

    def rebuilt(self, slot_id: str, fresh: Mapping[str, Any] | None) -> bool:
        """Put a slot that was made fresh, or the `fresh` one in its place, among those to be published.

        False when it was withdrawn or published by hand meanwhile: then that stands.
        """
        if slot_id not in self.rebuilding:
            return False
        (fresh_id,) = self.enter([self.slots[slot_id] if fresh is None else fresh])
        if fresh_id != slot_id:
            self.forget(slot_id)
        self.marked.discard(slot_id)
        self.unpublished.add(fresh_id)
        return True

    def _drain_call(self) -> dict[str, Any]:
        call = dict(self.drain_call or {})
        if isinstance(call.get("leftMs"), int | float):
            call["leftMs"] = max(0, int(call["leftMs"] - (now_s() - self._told_s) * 1000))
        return call

    def expected(self) -> set[str] | None:
        """Return the slots that the hub should have; None while that is not certain."""
        if self.unwithdrawn or not all(self.rebuilding.values()):
            return None
        return self.slots.keys() - self.unpublished - self.refused - self.rebuilding.keys()

    def differs(self) -> bool:
        """Return whether the hub has other slots than it should; both as of now."""
        expected = self.expected()
        return bool(self.offers) and expected is not None and in_short(expected) != self.offers

    def compare(self, known: Iterable[str]) -> None:
        """Take note of what the hub has of ours that it should not have, and of what it lacks."""
        found, expected = set(known), self.expected() or set()
        self.unwithdrawn |= found - self.slots.keys()
        self.unpublished |= expected - found

    def _off_offer(self, slot_id: str) -> bool:
        sure = self.rebuilding.get(slot_id)
        return sure is not None and (sure or slot_id not in self.lent)

    def beat(self) -> dict[str, Any]:
        """Return the body of the next heartbeat."""
        recycled = sorted(self.acknowledged)[:ACKNOWLEDGED_AT_ONCE]
        named = {"nodeId": self.node_id, "incarnation": self.incarnation, "version": self.version}
        return {**named, **({"recycled": recycled} if recycled else {})}

    def heard(self, beat: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        """Take over the answer of a node that is known to the hub."""
        self.acknowledged.difference_update(beat.get("recycled", ()))
        self.version = int(answer.get("version", 0))
        self.draining = bool(answer.get("drain"))
        wanted = set(answer.get("recycle", ()))
        if "lent" in answer:  # only then the answer is the full picture
            self.lent, self.lent_for = dict(answer["lent"]), dict(answer.get("lentFor", {}))
            self.marked = wanted
            self.offers = str(answer.get("offers", ""))
            self.drain_call, self._told_s = answer.get("drainCall", self.drain_call), now_s()
        else:
            self.marked |= wanted


def in_short(slots: Collection[str]) -> str:
    """Return the hub's sum of slots: their number, and the sum of ten hex digits of each SHA-1, in 40 bits."""
    found = (int(hashlib.sha1(slot.encode(), usedforsecurity=False).hexdigest()[:10], 16) for slot in slots)
    return f"{len(slots)}-{sum(found) % 2**40}"


def _pool(node_id: str, label: str, count: int) -> Iterator[dict[str, Any]]:
    # The names the hub itself gives to the slots of a pool that is published by number.
    label = ":".join(segment.strip() for segment in label.split(":"))
    for number in range(1, count + 1):
        yield {"slotId": f"{node_id}-{label.replace(':', '.')}-{number}", "labelKey": label}

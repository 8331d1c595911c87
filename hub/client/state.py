"""The state of a node: its slots, which of them are lent, and the orders of the hub. No I/O."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from socket import gethostname
from typing import Any, Literal, TypedDict

from hub.capacity.attributes import read_attributes, read_warm
from hub.client.described import Described
from hub.client.slot_holds import SlotHolds
from hub.errors import BadInput
from hub.retries import now_s

# A hub takes 1000 slots and 64 KiB in one call by default; the difference is for the other members of a registration.
BITE_SLOTS = 1000
BITE_BYTES = 48 * 1024
ACKNOWLEDGED_AT_ONCE = 1000
HOST_MAX = 200  # characters, as the hub takes them


class AgentOptions(TypedDict, total=False):
    """The options of `NodeAgent` and `SyncNodeAgent`."""

    slots: Iterable[Mapping[str, Any]]
    """Each `{"label": "gpu:a100", "slotId"?: ..., "address"?: ..., "kind"?: ...}` with any other facts for borrowers.
    Borrowers choose by `attributes`, name -> number, text, bool or list of texts, and prefer by `warm`, a list of keys.
    The older names `labelKey`, `browserId`, `endpoint` and `browserType` are accepted as well."""
    pools: Mapping[str, int]
    """Label -> number of slots, which get the ids `<node>-<label with dots>-<1..n>`."""
    labels: Mapping[str, str]
    """Facts about the node, such as region or os."""
    apps: Iterable[str]
    """The names of the programs that the node runs."""
    base_url: str
    """The URL of the node itself."""
    capacity: int
    """The capacity to show for the node; the number of its slots unless given."""
    url: str
    """The URL of the hub; `HUB_URL` or http://127.0.0.1:8080 unless given."""
    secret: str
    """The node secret; `HUB_NODE_SECRET` unless given."""
    join_token: str
    """A token to join with when the hub refuses the secret, or there is none: the node then makes a token of its own,
    which is valid for this node alone. `HUB_JOIN_TOKEN` unless given."""
    token_file: str
    """The file that keeps that token, or one of `hub token create --node`; `HUB_NODE_TOKEN_FILE` unless given."""
    policy: Literal["fresh", "recycle", "reuse"]
    """What the hub does with a slot after a lease: `fresh`, the default with `on_recycle`, lends it to nobody until
    `on_recycle` has rebuilt it; `recycle`, the default of the hub, asks for that, and may lend it before; `reuse` lends
    it again as it is."""
    held: Mapping[str, str]
    """Slot id -> reason of slots that are held from the first registration on, as `NodeAgent.hold` does it later."""
    on_recycle: Callable[[str], Any]
    """Called with the id of a slot to rebuild, which is off offer, so that nobody holds or borrows it. May be async.
    Returns the slot that replaces it, or None when the same slot is ready again; only then it is lent again. When it
    raises, it is called again about one heartbeat later. The returned slot is ignored when the program has withdrawn or
    published the slot meanwhile."""
    on_drain: Callable[[bool], Any]
    """Called with True when the hub stops lending slots of this node, with False when it begins again. May be async."""
    on_lent: Callable[[Mapping[str, str]], Any]
    """Called with slot id -> fencing token of all leases, as soon as one has begun or ended. May be async."""
    max_silence: float
    """The seconds for which the program may hang before the heartbeats stop: the event loop runs nothing, or, with
    `SyncNodeAgent`, `progress` is not called. They go on when it does again. No limit unless given."""
    pod: bool
    """True when the pod `POD_NAME` in `POD_NAMESPACE` on Kubernetes exists for this node alone: the agent then keeps
    annotations by which a scale-down removes idle pods first. False unless given; `hub agent` and
    `python -m hub.client` set it."""
    transport: Any
    """A `httpx.AsyncBaseTransport` for tests, in place of the network; it is used in the thread of the agent."""


class AgentState:
    """The state of one node: its slots, its leases, and the changes that the hub has not confirmed yet."""

    def __init__(self, node_id: str, options: AgentOptions) -> None:
        self.node_id = node_id
        self.slots: dict[str, dict[str, Any]] = {}
        self.lent: dict[str, str] = {}
        self.lent_for: dict[str, dict[str, str]] = {}  # slot id -> requested label, and run
        self.version = 0
        self.incarnation = uuid.uuid4().hex
        self.term = ""  # given by the hub to this incarnation
        self.offers = ""  # the hub's sum of our slots as of the last heartbeat, see `sum_of`
        self.drain_call: dict[str, Any] | None = None  # the last drain or undrain, for a hub that has lost it
        self._drain_call_s = 0.0  # when the hub sent `drain_call`, on the clock of `now_s`
        self.refused: set[str] = set()  # our slots that the hub refused
        self.holds, self.described = SlotHolds(), Described()
        self.draining = False
        self.marked: set[str] = set()  # slots the hub wants recycled
        self.ends: dict[str, str] = {}  # slots that the hub holds back until they are fresh -> number of the end
        self.made: dict[str, str] = {}  # slot -> number of the last end for which it was made fresh
        self.acknowledged: dict[str, str] = {}  # recycled slots that no heartbeat has reported yet -> number of the end
        self.unpublished: set[str] = set()  # our slots that the hub may not have
        self.unwithdrawn: set[str] = set()  # slots that are no longer ours and that the hub may have
        self.rebuilding: dict[str, bool] = {}  # our slots being rebuilt -> whether the hub has surely withdrawn them
        self._capacity = options.get("capacity")
        policy = options.get("policy") or ("fresh" if options.get("on_recycle") else None)
        if policy == "fresh" and not options.get("on_recycle"):
            raise ValueError("policy 'fresh' needs on_recycle, which makes a slot fresh after its lease")
        self.policy = policy
        self._policy = {"policy": policy} if policy else {}
        self._facts: dict[str, Any] = {
            "nodeId": node_id,
            "host": host(),
            "apps": list(options.get("apps", ())),
            "labels": dict(options.get("labels", {})),
        }
        if base_url := options.get("base_url"):
            self._facts["baseUrl"] = base_url
        self.enter(options.get("slots", ()))
        for label, count in options.get("pools", {}).items():
            self.enter(_pool(node_id, label, count))
        for slot_id, reason in options.get("held", {}).items():
            self.hold(slot_id, reason)

    def enter(self, slots: Iterable[Mapping[str, Any]]) -> list[str]:
        """Add slots, each with a new id if it has none; return their ids. Raises, and adds none, if one is no JSON."""
        entered: dict[str, dict[str, Any]] = {}
        for given in slots:
            slot = dict(given)
            json.dumps(slot, allow_nan=False)  # a slot that is no JSON would break every later call with it
            slot_id = str(slot.pop("browserId", None) or slot.pop("slotId", None) or uuid.uuid4().hex)
            slot.pop("slotId", None)
            entered[slot_id] = {"slotId": slot_id, **slot}
        self.slots.update(entered)
        for slot_id in entered:
            self.described.drop(slot_id)
            if slot_id in self.unwithdrawn:
                self.holds.drop(slot_id)
            self.unwithdrawn.discard(slot_id)
            self.rebuilding.pop(slot_id, None)
            if slot_id in self.ends:  # what is entered is another slot of the same name, and new
                self.made[slot_id] = self.ends.pop(slot_id)
                self.marked.discard(slot_id)
        return list(entered)

    def forget(self, slot_id: str) -> None:
        """Remove a slot from the state."""
        for known in (self.slots, self.lent, self.rebuilding, self.ends, self.made, self.acknowledged):
            known.pop(slot_id, None)
        self.holds.drop(slot_id)
        self.described.drop(slot_id)
        self.refused.discard(slot_id)
        self.unpublished.discard(slot_id)
        self.marked.discard(slot_id)

    def hold(self, slot_id: str, reason: str) -> None:
        """Hold an own slot; raises `BadInput` for another slot, and for a reason that is not one printable line."""
        if slot_id not in self.slots:
            raise BadInput(f"node {self.node_id} has no slot {slot_id} to hold")
        self.holds.put(slot_id, reason)

    def describe(self, slot_id: str, attributes: Mapping[str, Any] | None, warm: Iterable[str] | None) -> None:
        """Change attributes and warm keys of an own slot, None: as they are. Raises `BadInput` as the hub would."""
        if slot_id not in self.slots:
            raise BadInput(f"node {self.node_id} has no slot {slot_id} to describe")
        said = {} if attributes is None else {"attributes": json.loads(read_attributes(dict(attributes)))}
        said |= {} if warm is None else {"warm": read_warm(list(warm)).split()}
        self.slots[slot_id] = {**self.slots[slot_id], **said}
        self.described.put(slot_id, said)

    def registration(self) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Return the body that registers the node with as many slots as fit, and the bodies that publish the others.

        Lent slots go first: a hub whose store was lost must know of them before it lends anything of this node. Slots
        that are being rebuilt and not known to be lent are left out. So are slots still to be published, which are
        published by other calls: one that the hub refuses must not prevent the registration.
        """
        capacity = len(self.slots) if self._capacity is None else self._capacity
        shown = [slot_id for slot_id in self.slots if slot_id not in self.unpublished and not self._off_offer(slot_id)]
        batches = list(self.batches(sorted(shown, key=lambda slot_id: slot_id not in self.lent)))
        first = batches.pop(0) if batches else {}
        identity: dict[str, Any] = {
            "incarnation": self.incarnation,
            **({"term": self.term} if self.term else {"first": True}),
        }
        if self.drain_call is not None:
            identity["drainCall"] = self._drain_call()
        return {**self._facts, **identity, "capacity": capacity, **self._policy, **first}, batches

    def registered(self, answer: Mapping[str, Any]) -> None:
        """Store the answer to a registration, except the results of the slots, for which `published` is called."""
        self.term = str(answer.get("term", ""))
        self.version = 0  # not that of the answer: the next heartbeat shall bring all orders
        self.lent |= answer.get("lent", {})  # leases of the process that was the node before
        self.lent_for |= answer.get("lentFor", {})

    def batches(self, ids: Iterable[str]) -> Iterator[dict[str, Any]]:
        """Yield the bodies that publish these slots, each small enough for one call."""
        batch: list[str] = []
        size = 0
        for slot_id in ids:
            length = len(json.dumps(self.slots[slot_id])) + 2 * len(slot_id) + 80
            if slot_id in self.lent_for:
                length += len(json.dumps(self.lent_for[slot_id])) + len(slot_id)
            length += len(json.dumps(self.holds.of([slot_id])))
            if batch and (len(batch) == BITE_SLOTS or size + length > BITE_BYTES):
                yield self._publication(batch)
                batch, size = [], 0
            batch.append(slot_id)
            size += length
        if batch:
            yield self._publication(batch)

    def _publication(self, ids: list[str]) -> dict[str, Any]:
        lent = {slot_id: self.lent[slot_id] for slot_id in ids if slot_id in self.lent}
        slots = [self.slots[slot_id] for slot_id in ids]
        body: dict[str, Any] = {"slots": slots, **self._policy, **self.holds.of(ids)}
        if lent:
            body["lent"] = lent
        for name, numbers in (("madeFresh", self.made), ("ends", self.ends)):
            if told := {slot_id: numbers[slot_id] for slot_id in ids if slot_id in numbers}:
                body[name] = told
        if lent_for := {slot_id: self.lent_for[slot_id] for slot_id in lent if slot_id in self.lent_for}:
            body["lentFor"] = lent_for
        return body

    def published(self, results: Iterable[Mapping[str, Any]]) -> None:
        """Store the result that the hub answered for each published slot."""
        for result in results:
            slot_id = result["browserId"]
            self.unpublished.discard(slot_id)
            self.refused.discard(slot_id)
            if result["status"] == "refused":
                self.refused.add(slot_id)
            free = result["status"] in ("published", "unchanged")  # as of the answer
            if free and (ended := self.lent.pop(slot_id, None)) is not None:
                self.version = 0  # if it was lent since, the next heartbeat brings that
                if self._policy.get("policy") == "fresh" and ended.isdigit() and _above(ended, self.made.get(slot_id)):
                    self.ends[slot_id] = ended  # the store may be lost before that heartbeat

    def to_recycle(self) -> set[str]:
        """Return the ids of the slots to recycle now; a lent slot is recycled once its lease has ended."""
        return self.marked - self.lent.keys()

    def to_rebuild(self) -> set[str]:
        """Return the ids of own slots that are to be recycled now, or whose rebuilding has begun and not ended."""
        return (self.to_recycle() | self.rebuilding.keys()) & self.slots.keys()

    def acknowledge(self) -> bool:
        """Count all slots that are to be recycled as recycled; return whether the next heartbeat has any to report."""
        self.acknowledged |= dict.fromkeys(self.to_recycle(), "")
        self.marked -= self.acknowledged.keys()
        return bool(self.acknowledged)

    def reserving(self, slot_id: str) -> None:
        """Note that the hub is asked to withdraw the slot; until it answers, it may or may not have done so."""
        self.rebuilding[slot_id] = False
        self.unpublished.discard(slot_id)

    def reserved(self, slot_id: str) -> None:
        """Note that the hub has withdrawn the slot, which has no holder."""
        self.rebuilding[slot_id] = True
        self.lent.pop(slot_id, None)

    def still_lent(self, slot_id: str, *, asked_before: bool) -> None:
        """Note that the hub has not withdrawn the slot because it is lent; it is rebuilt once its lease has ended."""
        self.rebuilding.pop(slot_id, None)
        if asked_before:  # that call had no answer, and a registration since may have left the slot out
            self.unpublished.add(slot_id)

    def made_fresh(self, slot_id: str, fresh: Mapping[str, Any] | None, end: str) -> bool:
        """Note that a slot which the hub holds back was made fresh for this end, or that `fresh` takes its place.

        Return False, and change nothing, when the program has withdrawn or published the slot meanwhile.
        """
        if slot_id not in self.slots or not _above(end, self.made.get(slot_id)):
            return False
        if fresh is None:
            self._is_fresh(slot_id, end)
            return True
        newer, self.ends[slot_id] = self.ends.get(slot_id, end), end
        (fresh_id,) = self.enter([fresh])
        if fresh_id != slot_id:
            self.forget(slot_id)
            self.unwithdrawn.add(slot_id)
        elif _above(newer, end):
            self.ends[slot_id] = newer
            self.marked.add(slot_id)
        self.unpublished.add(fresh_id)
        return True

    def _is_fresh(self, slot_id: str, end: str) -> None:
        self.made[slot_id] = self.acknowledged[slot_id] = end
        if not _above(self.ends.get(slot_id, end), end):
            self.ends.pop(slot_id, None)
            self.marked.discard(slot_id)

    def rebuilt(self, slot_id: str, fresh: Mapping[str, Any] | None) -> bool:
        """Note that a slot was rebuilt, and that it, or `fresh` in its place, is to be published.

        Return False, and change nothing, when the program has withdrawn or published the slot meanwhile.
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
            call["leftMs"] = max(0, int(call["leftMs"] - (now_s() - self._drain_call_s) * 1000))
        return call

    def expected(self) -> set[str] | None:
        """Return the ids of the slots that the hub should have; None while that is not certain."""
        if self.unwithdrawn or not all(self.rebuilding.values()):
            return None
        return self.slots.keys() - self.unpublished - self.refused - self.rebuilding.keys()

    def differs(self) -> bool:
        """Return whether the hub, as of the last heartbeat, had other slots than it should."""
        expected = self.expected()
        return bool(self.offers) and expected is not None and sum_of(expected) != self.offers

    def compare(self, known: Iterable[str]) -> None:
        """Note which of the slots `known` to the hub it should not have, and which it lacks."""
        at_hub, expected = set(known), self.expected() or set()
        self.unwithdrawn |= at_hub - self.slots.keys()
        self.unpublished |= expected - at_hub

    def _off_offer(self, slot_id: str) -> bool:
        withdrawn = self.rebuilding.get(slot_id)
        return withdrawn is not None and (withdrawn or slot_id not in self.lent)

    def beat(self) -> dict[str, Any]:
        """Return the body of the next heartbeat."""
        recycled: Any = sorted(self.acknowledged)[:ACKNOWLEDGED_AT_ONCE]
        if any(self.acknowledged[slot_id] for slot_id in recycled):
            recycled = {slot_id: self.acknowledged[slot_id] or "0" for slot_id in recycled}
        body: dict[str, Any] = {"nodeId": self.node_id, "incarnation": self.incarnation, "version": self.version}
        if (held := self.holds.to_tell()) is not None:
            if self.holds.too_many():  # then each publication of slots tells those of its slots
                self.unpublished |= self.slots.keys() - self.refused - self.rebuilding.keys()
                self.holds.told(held)
            else:
                body["held"] = held
        body |= {"recycled": recycled} if recycled else {}
        return body | self.described.to_tell(body)

    def heard(self, beat: Mapping[str, Any], answer: Mapping[str, Any], *, told: bool = True) -> None:
        """Store the answer to a heartbeat of a node that the hub knows."""
        if told:
            self.holds.told(beat.get("held"))
            self.described.told(beat)
        recycled = beat.get("recycled", ())
        for slot_id in recycled:
            if not isinstance(recycled, dict) or recycled[slot_id] == (self.acknowledged.get(slot_id) or "0"):
                self.acknowledged.pop(slot_id, None)  # else it was made fresh again meanwhile
        self.version = int(answer.get("version", 0))
        self.draining = bool(answer.get("drain"))
        to_recycle = set(answer.get("recycle", ()))
        if "lent" in answer:  # only then the answer is complete
            self.lent, self.lent_for = dict(answer["lent"]), dict(answer.get("lentFor", {}))
            self.holds.by_operator = dict(answer.get("operatorHeld", {}))
            self.marked, self.ends = to_recycle, dict(answer.get("ends", {}))
            for slot_id, end in list(self.ends.items()):
                if not _above(end, self.made.get(slot_id)):  # the hub has not heard, or has forgotten it
                    self._is_fresh(slot_id, self.made[slot_id])
            self.offers = str(answer.get("offers", ""))
            self.drain_call, self._drain_call_s = answer.get("drainCall", self.drain_call), now_s()
        else:
            self.marked |= to_recycle


def host() -> str:
    """Return a text that differs on two machines, also when both began as one image, and until the next boot stays."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:  # not on Linux
        boot = ""
    return f"{gethostname()}/{boot}"[:HOST_MAX]


def _above(end: str, made: str | None) -> bool:
    return made is None or int(end) > int(made)


def sum_of(slots: Collection[str]) -> str:
    """Return the sum by which the hub compares slots: their number, a dash, and their SHA-1s summed in 40 bits."""
    hashes = (int(hashlib.sha1(slot.encode(), usedforsecurity=False).hexdigest()[:10], 16) for slot in slots)
    return f"{len(slots)}-{sum(hashes) % 2**40}"


def _pool(node_id: str, label: str, count: int) -> Iterator[dict[str, Any]]:
    # The hub gives the same ids to the slots of a pool that is published as a number.
    label = ":".join(segment.strip() for segment in label.split(":"))
    for number in range(1, count + 1):
        yield {"slotId": f"{node_id}-{label.replace(':', '.')}-{number}", "labelKey": label}

"""The bodies that nodes send, each as a model: it reads the body, holds its limits, and is shown in OpenAPI."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic_core import ErrorDetails
from pydantic_core.core_schema import str_schema

from hub.api.shapes.body import Body
from hub.api.shapes.fields import LABEL as LABEL_SHOWN
from hub.api.shapes.fields import NODE, SLOT, TOKEN, doc
from hub.api.shapes.hold_bodies import NUMBER_MAX, SLOTS_MAX, TERM, CallerBody, HeldSlots, Host, is_term
from hub.api.shapes.readers import (
    TEXT,
    TEXTS,
    Digest,
    Member,
    Text,
    Truth,
    as_seconds,
    as_text,
    reading_with,
    whole,
    whole_number,
)
from hub.api.shapes.slot_bodies import ATTRIBUTES, WARM, PublishBody, attributes_of, of_slots, read_numbers
from hub.capacity.attributes import read_warm
from hub.capacity.models import check_slot_id, compact
from hub.capacity.nodes.models import (
    DRAIN_DEADLINE_MAX_S,
    ID_MAX,
    UNSAID,
    Beat,
    DrainCall,
    check_node_id,
    check_reason,
)
from hub.errors import InvalidValue, MissingMember
from hub.tokens.models import read_flag

BEATS_MAX = 1000


def _term(value: Any, name: str) -> str:
    if not is_term(value):
        raise InvalidValue(f"{name} must be what the hub answered to the registration, as text", member=name)
    return str(value)


def _drain_call(value: Any, name: str) -> DrainCall:
    call = value if isinstance(value, dict) else {}
    if not isinstance(call.get("on"), bool) or not is_term(call.get("number")):
        wanted = f"{name} must be what the hub answered to a beat: an object with on, number and leftMs"
        raise InvalidValue(wanted, member=name)
    left_ms = call.get("leftMs")
    if left_ms is not None:
        left_ms = whole_number(left_ms, "leftMs", 0, DRAIN_DEADLINE_MAX_S * 1000)
    reason = call.get("reason", "")
    return DrainCall(call["on"], str(call["number"]), left_ms, "" if reason == "" else check_reason(reason))


def _apps(value: Any, name: str) -> tuple[str, ...]:
    listed = value.split(",") if isinstance(value, str) else value
    if not isinstance(listed, list):
        raise InvalidValue(f"{name} must be a list of texts, or one text with commas", member=name)
    return tuple(app.strip() for app in map(_in_short, listed) if app.strip())


def _capacity(value: Any, _: str) -> int:
    seconds = as_seconds(value)
    return 1 if seconds is None else min(10**9, max(0, int(seconds)))


def _labels(value: Any, name: str) -> dict[str, str]:
    labels = value or {}
    if not isinstance(labels, dict):
        raise InvalidValue(f"{name} must be an object of texts", member=name)
    return {str(key): _in_short(label) for key, label in labels.items()}


def _in_short(value: Any) -> str:
    return value if isinstance(value, str) else compact(value, "labels")


def _recycled(value: Any, name: str) -> dict[str, str]:
    listed = value or []
    if isinstance(listed, dict) and len(listed) <= SLOTS_MAX:
        return {check_slot_id(slot): number for slot, number in read_numbers(listed, name).items()}
    if not (isinstance(listed, list) and len(listed) <= SLOTS_MAX and all(isinstance(slot, str) for slot in listed)):
        wanted = f"{name} must be a list of at most {SLOTS_MAX} slot ids, or an object of slot id: number of its end"
        raise InvalidValue(wanted, member=name)
    return {check_slot_id(slot): "" for slot in listed}


def _beats(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list) or len(value) > BEATS_MAX:
        raise InvalidValue(f"{name} must be a list of at most {BEATS_MAX} heartbeats", member=name)
    return value


def _node_id(value: Any, name: str) -> str:
    return check_node_id(as_text(value, name))


def _announced_id(value: Any, name: str) -> str:
    text = as_text(value, name)
    if not text.strip():
        raise MissingMember("missing NodeId", member=name)
    return check_node_id(text)


_PLAIN_ID = str_schema(strict=True, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@-]{0,199}$")  # most ids: taken as they are
NodeId = Annotated[
    str, Member(_node_id, _PLAIN_ID, type="string", minLength=1, maxLength=ID_MAX), doc("The id of the node.", NODE)
]


class RegisterBody(PublishBody):
    """A node that registers, with its slots if it offers them in the same call."""

    spellings = {
        name: (name[0].upper() + name[1:], name) for name in ("nodeId", "apps", "capacity", "labels", "baseUrl")
    }
    missing = {"nodeId": ("missing NodeId", "nodeId")}
    node_id: Annotated[
        str, Member(_announced_id, type="string", minLength=1, maxLength=ID_MAX), doc("The id of the node.", NODE)
    ]
    apps: Annotated[
        tuple[str, ...], Member(_apps, type="array", items=TEXT), doc("What it offers.", [LABEL_SHOWN])
    ] = ()
    capacity: Annotated[int, Member(_capacity, type="integer", minimum=0), doc("How many slots it has.", 8)] = 1
    labels: Annotated[dict[str, str], Member(_labels, **TEXTS), doc("What it says of itself.", {"zone": "eu-1"})] = {}
    base_url: Annotated[Text, doc("Where it can be asked itself.", "http://10.0.0.7:5000")] = ""
    host: Host = ""
    drain_call: Annotated[
        DrainCall | None,
        Member(
            _drain_call,
            type="object",
            required=["on", "number"],
            properties={
                "on": {"type": "boolean", "examples": [True]},
                "number": {"type": "string", "examples": ["3"]},
                "leftMs": {"type": ["integer", "null"], "examples": [600000]},
                "reason": {"type": "string", "examples": ["fan is broken"]},
            },
            description="The last one a beat was answered: a store that was lost drains the node again, as the last "
            "call said.",
        ),
    ] = None
    term: Annotated[
        str,
        Member(
            _term,
            type="string",
            pattern=f"^{TERM.pattern}$",
            description="What this incarnation was answered when it registered; it says which of two is newer.",
            examples=["1875000000000"],
        ),
    ] = ""
    first: Annotated[Truth, doc("It has not registered before: it waits while a lost store hears others.", True)] = (
        False
    )


class BeatBody(CallerBody):
    """A heartbeat."""

    spellings = {"nodeId": ("nodeId", "NodeId")}
    node_id: NodeId
    version: Annotated[int, whole(0, NUMBER_MAX), doc("The last one the hub answered.", 7)] = 0
    recycled: Annotated[
        dict[str, str],
        Member(_recycled, type=["array", "object"], items=TEXT, maxItems=SLOTS_MAX, additionalProperties=TEXT),
        doc(
            "Slots that the node has replaced since: a list, or an object of slot to the number that `ends` had of it. "
            "A slot with the policy `fresh` is lent again only with its number.",
            {SLOT: TOKEN},
        ),
    ] = {}
    held: Annotated[
        HeldSlots,
        doc(
            "All slots that the process holds now because they are unwell, each with the reason: they are not lent. "
            "Where it is left out, nothing changes; a beat says it when it has changed.",
            {SLOT: "does not answer"},
        ),
    ] = None

    attributes: Annotated[
        dict[str, str],
        Member(of_slots(attributes_of), type="object", additionalProperties=ATTRIBUTES | {"type": ["object", "null"]}),
        doc("Slots that are another like than the hub was told, with all their attributes; null for none.", {}),
    ] = {}
    warm: Annotated[
        dict[str, str],
        Member(of_slots(read_warm), type="object", additionalProperties=WARM),
        doc("Slots in which something else is warm than the hub was told.", {SLOT: ["repo-42"]}),
    ] = {}

    @property
    def beat(self) -> Beat:
        """Return the heartbeat."""
        beat = Beat(self.node_id, self.version, self.recycled, self.incarnation)
        if self.held is None and not self.attributes and not self.warm:
            return beat
        described = {
            slot: (self.attributes.get(slot, UNSAID), self.warm.get(slot, UNSAID))
            for slot in {**self.attributes, **self.warm}
        }
        return beat._replace(held=self.held, number=self.caller().number, described=described)


class BeatsBody(Body):
    """A list of heartbeats; each is read on its own and refused on its own."""

    beats: Annotated[
        list[Any], Member(_beats, type="array", items=BeatBody, maxItems=BEATS_MAX), doc("The heartbeats.", [])
    ]

    @classmethod
    def _refusal(cls, fault: ErrorDetails) -> MissingMember | InvalidValue:
        return InvalidValue(f"beats must be a list of at most {BEATS_MAX} heartbeats", member="beats")


class JoinBody(Body):
    """A node that joins, and the digest of the secret that its token is to have."""

    missing = {
        "nodeId": ("missing nodeId: the node that joins", "nodeId"),
        "sha256": ("missing sha256: the digest of a secret the node has made up", "sha256"),
    }
    node_id: NodeId
    sha256: Annotated[Digest, doc("The digest of a secret the node has made up.", "9f86d081884c7d65" * 4)]
    kept: Annotated[
        bool,
        Member(reading_with(read_flag), type="boolean"),
        doc("Whether the node keeps the secret for its next start; else the token ends when it leaves.", True),
    ] = True

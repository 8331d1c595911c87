"""The bodies that nodes send, each as a model: it reads the body, holds its limits, and is shown in OpenAPI."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic_core import ErrorDetails
from pydantic_core.core_schema import str_schema

from hub.api.shapes import neutral
from hub.api.shapes.body import Body
from hub.api.shapes.fields import LABEL as LABEL_SHOWN
from hub.api.shapes.fields import NODE, RUN, SLOT, TOKEN, doc
from hub.api.shapes.readers import (
    LABEL,
    TEXT,
    TEXTS,
    Digest,
    Incarnation,
    Member,
    Text,
    as_seconds,
    as_text,
    one_of,
    reading_with,
    whole,
    whole_number,
)
from hub.capacity.labels import parse_label
from hub.capacity.models import RUN_MAX, check_run_id, check_slot_id, compact
from hub.capacity.nodes.models import (
    DRAIN_DEADLINE_MAX_S,
    ID_MAX,
    Beat,
    DrainCall,
    LentFor,
    NodeCaller,
    check_node_id,
    check_reason,
)
from hub.errors import InvalidValue, MissingMember
from hub.tokens.models import read_flag

SLOTS_MAX = 1000  # slots per call
BEATS_MAX = 1000
NUMBER_MAX = 2**53
IDLE_MAX_S = 86_400
_NUMBERS = {"type": "object", "additionalProperties": {"type": "string", "pattern": "^[0-9]{1,19}$"}}
_TERM = re.compile(r"[0-9]{1,19}")


def _is_term(value: Any) -> bool:
    return isinstance(value, str) and _TERM.fullmatch(value) is not None


def _term(value: Any, name: str) -> str:
    if not _is_term(value):
        raise InvalidValue(f"{name} must be what the hub answered to the registration, as text", member=name)
    return str(value)


def _drain_call(value: Any, name: str) -> DrainCall:
    call = value if isinstance(value, dict) else {}
    if not isinstance(call.get("on"), bool) or not _is_term(call.get("number")):
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


def _slot_labels(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidValue(f"{name} of a slot must be an object", member=name)
    return value


def _slots(value: Any, name: str) -> list[dict[str, Any]]:
    listed = value or []
    if not isinstance(listed, list) or not all(isinstance(slot, dict) for slot in listed):
        raise InvalidValue(f"{name} must be a list of objects", member=name)
    return [neutral.slot_in_old_names(slot) for slot in listed]


def _pools(value: Any, name: str) -> dict[str, int]:
    pools = value or {}
    if not isinstance(pools, dict):
        raise InvalidValue(f"{name} must be an object of label: number of slots", member=name)
    return {label: whole_number(count, f"{name}.{label}", 0, SLOTS_MAX) for label, count in pools.items()}


def _by_slot(what: str) -> Callable[[Any, str], dict[str, str]]:
    """Return the reader of an object of slot id: token, or another number of that counter."""

    def read(value: Any, name: str) -> dict[str, str]:
        numbers = value or {}
        if not isinstance(numbers, dict) or not all(_is_term(number) for number in numbers.values()):
            raise InvalidValue(f"{name} must be an object of slot id: {what}", member=name)
        return numbers

    return read


_lent, _numbers = _by_slot("lease token"), _by_slot("number of its end, as text, as a heartbeat is answered")


def _lent_for(value: Any, name: str) -> dict[str, LentFor]:
    listed = value or {}
    if not isinstance(listed, dict) or not all(isinstance(request, dict) for request in listed.values()):
        raise InvalidValue(f"{name} must be an object of slot id: object with labelKey and runId", member=name)
    return {slot: _asked(request) for slot, request in listed.items()}


def _asked(request: dict[str, Any]) -> LentFor:
    request = neutral.in_old_names(request)
    label, run = request.get("labelKey"), request.get("runId")
    return LentFor(
        "" if label is None else parse_label(as_text(label, "labelKey")).text,
        "" if run is None else check_run_id(as_text(run, "runId")),
    )


def _recycled(value: Any, name: str) -> dict[str, str]:
    listed = value or []
    if isinstance(listed, dict) and len(listed) <= SLOTS_MAX:
        return {check_slot_id(slot): number for slot, number in _numbers(listed, name).items()}
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


def _slot_id(value: Any, name: str) -> str:
    return check_slot_id(as_text(value, name).strip())


def _idle(value: Any, name: str) -> float | None:
    seconds = as_seconds(value)
    if seconds is not None and not 0 <= seconds <= IDLE_MAX_S:
        raise InvalidValue(f"{name} must be from 0 to {IDLE_MAX_S}", member=name)
    return seconds


_PLAIN_ID = str_schema(strict=True, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@-]{0,199}$")  # most ids: taken as they are
NodeId = Annotated[
    str, Member(_node_id, _PLAIN_ID, type="string", minLength=1, maxLength=ID_MAX), doc("The id of the node.", NODE)
]


class CallerBody(Body):
    """The process that speaks for a node, and the number of its call."""

    incarnation: Incarnation = ""
    number: Annotated[
        int | None,
        whole(
            0,
            NUMBER_MAX,
            description="Of this call; rises with each call of the incarnation, and stays when one is repeated. A call "
            "older than the last one carried out for a slot leaves that slot alone.",
            examples=[7],
        ),
    ] = None

    def caller(self) -> NodeCaller:
        """Return the process and the number of its call. A number without an incarnation is ignored."""
        return NodeCaller(self.incarnation, str(self.number) if self.incarnation and self.number is not None else "")


class SlotBody(Body):
    """A slot that is put on offer. All further members are kept, and shown to the borrower."""

    spellings = {"labelKey": ("labelKey", "label"), "slotId": ("slotId", "browserId")}
    missing = {
        "labelKey": ("every slot needs a labelKey", "labelKey"),
        "slotId": ("every slot needs a slotId", "slotId"),
    }
    label_key: Annotated[str, LABEL]
    slot_id: Annotated[
        str, Member(_slot_id, type="string", pattern="^[A-Za-z0-9._-]{1,200}$"), doc("The id of the slot.", SLOT)
    ]
    node_id: Annotated[Text, doc("The node that offers it, which the path names already.", NODE)] = ""
    web_socket_endpoint: Annotated[Text, doc("Where the slot is reached.", "ws://10.0.0.7:9222/")] = ""
    endpoint: Annotated[Text, doc("The same; `webSocketEndpoint` counts where both are there.", "10.0.0.7:9222")] = ""
    browser_type: Annotated[
        Text, doc("What kind of slot it is; the second segment of the label unless told.", "a100")
    ] = ""
    labels: Annotated[dict[str, Any], Member(_slot_labels, **TEXTS), doc("What else it is.", {"memory": "80G"})] = {}
    idle_timeout_seconds: Annotated[
        float | None,
        Member(_idle, type="number", minimum=0, maximum=IDLE_MAX_S),
        doc("After so many seconds without a borrow the node may close it.", 600),
    ] = None


class PublishBody(CallerBody):
    """The slots that a node offers, one by one in `slots` or by their number in `pools`. `lent` has the tokens of slots
    that are lent, and `lentFor` the labels and runs under which these were asked for."""

    slots: Annotated[
        list[dict[str, Any]],
        Member(_slots, type="array", items=SlotBody, maxItems=SLOTS_MAX),
        doc("The slots, one by one.", []),
    ] = []
    pools: Annotated[
        dict[str, int],
        Member(_pools, type="object", additionalProperties={"type": "integer", "minimum": 0, "maximum": SLOTS_MAX}),
        doc("How many slots of each label; the hub names them.", {LABEL_SHOWN: 4}),
    ] = {}
    lent: Annotated[
        dict[str, str],
        Member(_lent, **_NUMBERS),
        doc("The tokens of those that are lent, by slot.", {SLOT: TOKEN}),
    ] = {}
    lent_for: Annotated[
        dict[str, LentFor],
        Member(
            _lent_for,
            type="object",
            additionalProperties={
                "type": "object",
                "properties": {
                    "labelKey": {"type": "string", "examples": ["gpu:a100"]},
                    "runId": {"type": "string", "maxLength": RUN_MAX, "examples": [RUN]},
                },
            },
        ),
        doc(
            "As what those were asked for, as the hub told the node; they count for the label of their pool otherwise.",
            {SLOT: {"labelKey": "gpu:a100", "runId": RUN}},
        ),
    ] = {}
    policy: Annotated[
        Literal["recycle", "reuse", "fresh"],
        one_of("recycle", "reuse", "fresh"),
        doc(
            "`fresh`: after each lease a slot is held back until the node says that it is fresh. `recycle`: the node "
            "is asked to replace a slot after each lease, and the slot may be lent before. `reuse`: it is lent again "
            "as it is.",
            "reuse",
        ),
    ] = "recycle"
    made_fresh: Annotated[
        dict[str, str],
        Member(_numbers, **_NUMBERS),
        doc("Of slots with the policy `fresh` the last number in `ends` for which they were made fresh.", {}),
    ] = {}
    ends: Annotated[
        dict[str, str],
        Member(_numbers, **_NUMBERS),
        doc(
            "As answered to a heartbeat, of those not made fresh yet: a store that was lost holds them back again.", {}
        ),
    ] = {}

    def freshness(self, slot: str) -> tuple[str, str]:
        """Return the last end for which a slot was made fresh, and one for which it was not yet; '' for none."""
        return self.made_fresh.get(slot, ""), self.ends.get(slot, "")


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
            pattern=f"^{_TERM.pattern}$",
            description="What this incarnation was answered when it registered; it says which of two is newer.",
            examples=["1875000000000"],
        ),
    ] = ""


class BeatBody(Body):
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
    incarnation: Incarnation = ""

    @property
    def beat(self) -> Beat:
        """Return the heartbeat."""
        return Beat(self.node_id, self.version, self.recycled, self.incarnation)


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

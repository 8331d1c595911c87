"""The bodies in which nodes say what they offer: slots, what these are like, and what is lent of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple

from hub.api.shapes import neutral
from hub.api.shapes.body import Body
from hub.api.shapes.fields import LABEL as LABEL_SHOWN
from hub.api.shapes.fields import NODE, RUN, SLOT, TOKEN, doc
from hub.api.shapes.hold_bodies import SLOTS_MAX, CallerBody, HeldByOperator, HeldSlots, is_term
from hub.api.shapes.readers import LABEL, TEXTS, Member, Text, as_seconds, as_text, one_of, reading_with, whole_number
from hub.capacity.attributes import NAMES_MAX, WARM_MAX, is_name, read_attributes, read_warm
from hub.capacity.labels import parse_label
from hub.capacity.models import RUN_MAX, check_run_id, check_slot_id, holder_text
from hub.capacity.nodes.models import LentFor
from hub.errors import InvalidValue

IDLE_MAX_S = 86_400
_NUMBERS = {"type": "object", "additionalProperties": {"type": "string", "pattern": "^[0-9]{1,19}$"}}
_VALUE = {"type": ["number", "string", "boolean", "array"], "items": {"type": "string"}}
ATTRIBUTES: dict[str, Any] = {"type": "object", "maxProperties": NAMES_MAX, "additionalProperties": _VALUE}
WARM: dict[str, Any] = {
    "type": "array",
    "maxItems": WARM_MAX,
    "items": {"type": "string", "pattern": "^[A-Za-z0-9_.:/@+-]{1,64}$"},
}


class SentSlot(NamedTuple):
    """A slot as its node sent it: the members of its item, in the old names; its attributes, and what is warm in it."""

    item: dict[str, Any]
    attributes: Any
    warm: Any

    def read(self) -> SlotBody:
        """Return the slot; raises `MissingMember` and `InvalidValue`."""
        return SlotBody.read({**self.item, "attributes": self.attributes, "warm": self.warm})


def attributes_of(value: Any) -> str:
    """Return attributes as JSON, without those that no `where` can name and those without a value, which are for the
    borrower alone; raises `InvalidValue`."""
    if isinstance(value, dict):
        value = {name: each for name, each in value.items() if each is not None and is_name(name)}
    return read_attributes(value)


def of_slots(read: Callable[[Any], str]) -> Callable[[Any, str], dict[str, str]]:
    """Return the reader of an object of slot id: what `read` reads; '' for null."""

    def read_member(value: Any, name: str) -> dict[str, str]:
        if not isinstance(value, dict) or len(value) > SLOTS_MAX:
            raise InvalidValue(f"{name} must be an object of at most {SLOTS_MAX} slot ids", member=name)
        return {check_slot_id(slot): "" if said is None else read(said) for slot, said in value.items()}

    return read_member


def _slot_labels(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidValue(f"{name} of a slot must be an object", member=name)
    return value


def _slots(value: Any, name: str) -> list[SentSlot]:
    listed = value or []
    if not isinstance(listed, list) or not all(isinstance(slot, dict) for slot in listed):
        raise InvalidValue(f"{name} must be a list of objects", member=name)
    return list(map(_sent, listed))


def _sent(slot: dict[str, Any]) -> SentSlot:
    item = {name: value for name, value in slot.items() if name != "warm"} if "warm" in slot else slot
    return SentSlot(neutral.slot_in_old_names(item), slot.get("attributes"), slot.get("warm"))


def _pools(value: Any, name: str) -> dict[str, int]:
    pools = value or {}
    if not isinstance(pools, dict):
        raise InvalidValue(f"{name} must be an object of label: number of slots", member=name)
    return {label: whole_number(count, f"{name}.{label}", 0, SLOTS_MAX) for label, count in pools.items()}


def _by_slot(what: str) -> Callable[[Any, str], dict[str, str]]:
    """Return the reader of an object of slot id: token, or another number of that counter."""

    def read(value: Any, name: str) -> dict[str, str]:
        numbers = value or {}
        if not isinstance(numbers, dict) or not all(is_term(number) for number in numbers.values()):
            raise InvalidValue(f"{name} must be an object of slot id: {what}", member=name)
        return numbers

    return read


_lent, read_numbers = _by_slot("lease token"), _by_slot("number of its end, as text, as a heartbeat is answered")


def _lent_for(value: Any, name: str) -> dict[str, LentFor]:
    listed = value or {}
    if not isinstance(listed, dict) or not all(isinstance(request, dict) for request in listed.values()):
        raise InvalidValue(f"{name} must be an object of slot id: object with labelKey and runId", member=name)
    return {slot: _asked(request) for slot, request in listed.items()}


def _asked(request: dict[str, Any]) -> LentFor:
    request = neutral.in_old_names(request)
    label, run = request.get("labelKey"), request.get("runId")
    return LentFor(
        "" if label is None else parse_label(as_text(label, "labelKey"), segments_min=1).text,
        "" if run is None else check_run_id(as_text(run, "runId")),
        holder_text(request.get("holder")),
    )


def _slot_id(value: Any, name: str) -> str:
    return check_slot_id(as_text(value, name).strip())


def _idle(value: Any, name: str) -> float | None:
    seconds = as_seconds(value)
    if seconds is not None and not 0 <= seconds <= IDLE_MAX_S:
        raise InvalidValue(f"{name} must be from 0 to {IDLE_MAX_S}", member=name)
    return seconds


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
    attributes: Annotated[
        str,
        Member(reading_with(attributes_of), **ATTRIBUTES),
        doc(
            "What a borrower may demand of it with `where`: numbers, texts, booleans and lists of texts.", {"vram": 80}
        ),
    ] = ""
    warm: Annotated[
        str,
        Member(reading_with(read_warm), **WARM),
        doc("Keys of what is warm in it, for borrowers that `prefer` one.", ["repo-42"]),
    ] = ""


class PublishBody(CallerBody):
    """The slots that a node offers, one by one in `slots` or by their number in `pools`. `lent` has the tokens of slots
    that are lent, and `lentFor` the labels and runs under which these were asked for."""

    slots: Annotated[
        list[SentSlot],
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
                    "label": {"type": "string", "description": "The same as `labelKey`."},
                    "runId": {"type": "string", "maxLength": RUN_MAX, "examples": [RUN]},
                    "holder": {"type": "string", "description": "Who holds the lease, as the hub told the node."},
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
        Member(read_numbers, **_NUMBERS),
        doc("Of slots with the policy `fresh` the last number in `ends` for which they were made fresh.", {}),
    ] = {}
    ends: Annotated[
        dict[str, str],
        Member(read_numbers, **_NUMBERS),
        doc(
            "As answered to a heartbeat, of those not made fresh yet: a store that was lost holds them back again.", {}
        ),
    ] = {}

    held: Annotated[
        HeldSlots,
        doc(
            "Of these slots those that are unwell, each with the reason: they are not lent, from the first moment. "
            "Where it is left out, what the process has said before stays, and holds of an earlier process end.",
            {SLOT: "does not answer"},
        ),
    ] = None
    operator_held: Annotated[
        HeldByOperator,
        doc("As answered to a heartbeat: a store that was lost holds these slots back again.", {}),
    ] = {}

    def holds(self, slot: str) -> tuple[str, str, str]:
        """Return why the node holds a slot, and number and reason of an operator's call; '' for none."""
        return (self.held or {}).get(slot, ""), *self.operator_held.get(slot, ("", ""))

    def freshness(self, slot: str) -> tuple[str, str]:
        """Return the last end for which a slot was made fresh, and one for which it was not yet; '' for none."""
        return self.made_fresh.get(slot, ""), self.ends.get(slot, "")

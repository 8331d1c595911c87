"""The bodies in which a process of a node says who it is, and which slots it holds because they are unwell."""

from __future__ import annotations

import re
from typing import Annotated, Any

from hub.api.shapes.body import Body
from hub.api.shapes.fields import doc
from hub.api.shapes.readers import TEXT, Incarnation, Member, whole
from hub.capacity.models import check_slot_id
from hub.capacity.nodes.models import REASON_MAX, NodeCaller, check_reason
from hub.errors import InvalidValue

SLOTS_MAX = 1000  # slots per call
NUMBER_MAX = 2**53
TERM = re.compile(r"[0-9]{1,19}")


def is_term(value: Any) -> bool:
    """Return whether a value is a term, or another number of the counter of tokens, as text."""
    return isinstance(value, str) and TERM.fullmatch(value) is not None


def _held(value: Any, name: str) -> dict[str, str]:
    if not isinstance(value, dict) or len(value) > SLOTS_MAX:
        raise InvalidValue(f"{name} must be an object of at most {SLOTS_MAX} slot ids, each with a reason", member=name)
    return {check_slot_id(slot): check_reason(reason, name) for slot, reason in value.items()}


def _operator_held(value: Any, name: str) -> dict[str, tuple[str, str]]:
    calls = list(value.values()) if isinstance(value, dict) else [None]
    if not all(isinstance(call, dict) and is_term(call.get("number")) for call in calls):
        raise InvalidValue(f"{name} must be what the hub answered to a heartbeat", member=name)
    return {slot: (call["number"], check_reason(call.get("reason"), name)) for slot, call in value.items()}


_REASONS = {"type": "object", "additionalProperties": {"type": "string", "minLength": 1, "maxLength": REASON_MAX}}
_CALLS = {"type": "object", "required": ["number", "reason"], "properties": {"number": TEXT, "reason": TEXT}}
HeldSlots = Annotated[dict[str, str] | None, Member(_held, **_REASONS)]
HeldByOperator = Annotated[
    dict[str, tuple[str, str]], Member(_operator_held, type="object", additionalProperties=_CALLS)
]


Host = Annotated[
    str,
    Member(check_reason, type="string", minLength=1, maxLength=REASON_MAX),
    doc("Where this process runs. One that runs elsewhere does not take over while this one is heard.", "rack-7/4b1d"),
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


class HoldBody(CallerBody):
    """A slot that is unwell, in the words of its node."""

    missing = {"reason": ("missing reason: why the slot is held", "reason")}
    reason: Annotated[
        str, Member(check_reason, type="string", minLength=1, maxLength=REASON_MAX), doc("Why.", "does not answer")
    ]

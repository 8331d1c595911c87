"""The bodies and answers of the rules of pools, and of what holders tell of the use of their slots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Final, Literal

from typing_extensions import TypedDict

from hub.api.shapes import fields as w
from hub.api.shapes.body import Body
from hub.api.shapes.fields import doc
from hub.api.shapes.lease_bodies import Token
from hub.api.shapes.operator_bodies import By
from hub.api.shapes.readers import Member, given_text, number
from hub.errors import MissingMember

LONGEST_S: Final = 31_536_000  # a year
TTL_MAX_S: Final = 86_400
_MEMBERS: Final = {
    "hold": "max_hold_seconds", "idle": "idle_seconds", "ttl": "ttl_seconds", "warn": "warn_seconds",
}  # fmt: skip


def _or_null(high: int) -> Member:
    read = number(1, high).read
    types = {"type": ["number", "null"], "minimum": 1, "maximum": high}
    return Member(lambda value, name: None if value is None else read(value, name), **types)


class RuleBody(Body):
    """Changes of the rule of a pattern. A member that is left out stays as it is; null removes it."""

    nulls = True
    max_hold_seconds: Annotated[
        float | None, _or_null(LONGEST_S), doc("After so long a lease ends, renewed or not.", 14_400)
    ] = None
    idle_seconds: Annotated[float | None, _or_null(LONGEST_S), doc("After so long without use a lease ends.", 1800)] = (
        None
    )
    ttl_seconds: Annotated[
        float | None, _or_null(TTL_MAX_S), doc("The length of a lease whose borrower names none.", 60)
    ] = None
    warn_seconds: Annotated[
        float | None, _or_null(LONGEST_S), doc("How long before an end by this rule its holder is told.", 60)
    ] = None
    by: By = ""

    def changes(self) -> dict[str, int | None]:
        """Return the members that the body names, in ms, as the store calls them; raises `MissingMember` for none."""
        named = {short: getattr(self, name) for short, name in _MEMBERS.items() if name in self.model_fields_set}
        if not named:
            raise MissingMember(
                "name one of maxHoldSeconds, idleSeconds, ttlSeconds and warnSeconds", member="idleSeconds"
            )
        return {short: None if value is None else int(value * 1000) for short, value in named.items()}


class ActivityBody(Body):
    """A lease whose slot is in use, named by its token."""

    lease_token: Annotated[str, given_text("missing leaseToken"), Token]


class SlotPauseBody(ActivityBody):
    """A pause of the idle rule, for a human at the keyboard."""

    missing: ClassVar[Mapping[str, tuple[str, str]]] = {
        "seconds": ("missing seconds: how long the slot counts as used", "seconds")
    }
    seconds: Annotated[
        float,
        number(0, LONGEST_S),
        doc("For how long the slot counts as used, unless told otherwise; 0 ends that.", 600),
    ]


class RuleShape(TypedDict):
    """The rule of a pattern of pools."""

    pattern: Annotated[str, doc("It holds for pools whose label fits, unless a longer one fits too.", "gpu:*")]
    maxHoldSeconds: Annotated[float | None, doc("After so long a lease ends; null: no such rule.", 14_400)]
    idleSeconds: Annotated[float | None, doc("After so long without use it ends; null: no such rule.", 1800)]
    ttlSeconds: Annotated[float | None, doc("The length of a lease whose borrower names none; null.", 60)]
    warnSeconds: Annotated[float, doc("So long before an end its holder is told.", 60)]
    setBy: Annotated[str, doc("Who set it.", "ann")]
    setAtUtc: Annotated[str, doc("When.", w.TIME, json_schema_extra=w.DATE_TIME)]


class RulesShape(TypedDict):
    """The rules of pools."""

    rules: Annotated[list[RuleShape], doc("All of them, the longest pattern first: the first that fits holds.", [])]


class RuleRemovedShape(TypedDict):
    """The confirmation that a pattern has no rule."""

    removed: Annotated[str, doc("The pattern.", "gpu:*")]


class UsedShape(TypedDict):
    """A lease whose use was noted."""

    browserId: w.SlotId
    leaseToken: w.LeaseToken
    secondsLeft: w.SecondsLeft
    idleSeconds: Annotated[float | None, doc("After so long without use it ends; null: never.", 1800)]
    endsInSeconds: Annotated[
        float | None, doc("When it ends by a rule, unless it is used until then; null: never.", 1800)
    ]
    endsBy: Annotated[Literal["max-hold", "idle", "recall"] | None, doc("By which rule; null: by none.", "idle")]
    pausedSeconds: Annotated[float, doc("For how long it counts as used, whatever its holder tells.", 0)]

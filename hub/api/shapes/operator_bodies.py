"""The bodies that operators send: to drain, cordon, switch expiry, cap, set, sweep, and make tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic_core import ErrorDetails

from hub.api.shapes.body import Body
from hub.api.shapes.fields import NODE as NODE_SHOWN
from hub.api.shapes.fields import TASK, doc
from hub.api.shapes.readers import Digest, Member, as_text, number, one_of, reading_with, whole
from hub.capacity.nodes.models import DRAIN_DEADLINE_MAX_S, REASON_MAX, check_reason
from hub.errors import InvalidValue, MissingMember
from hub.tokens.models import (
    EXPIRES_MAX_DAYS,
    JOIN,
    KINDS,
    LABELS_MAX,
    NODE,
    PRIORITY_MAX,
    ROOMS_MAX,
    SCOPES,
    TEAM_MAX,
    USER,
    Holder,
    read_flag,
    read_labels,
    read_name,
    read_node,
    read_priority,
    read_rooms,
    read_scopes,
    read_team,
    read_user,
    user_of,
)

CAP_MAX = 999_999_999
SETTING_MAX = 10_000  # characters: some hundred caps


def _flag(value: Any, name: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidValue(f"{name} must be true or false", member=name)
    return value


def _switch(value: Any, name: str) -> bool | None:
    if not (value is None or isinstance(value, bool)):
        raise InvalidValue(f"{name} must be true, false or null", member=name)
    return value


def _said_by(value: Any, name: str) -> str:
    return "" if value is None else as_text(value, name)


def _setting(value: Any, name: str) -> str | None:
    if isinstance(value, str) and len(value) > SETTING_MAX:
        raise InvalidValue(f"{name} has at most {SETTING_MAX} characters", member=name)
    return None if value is None else as_text(value, name)


_CAP = whole(0, CAP_MAX)
HolderName = Annotated[str, Member(reading_with(read_name), type="string", minLength=1, maxLength=200)]
By = Annotated[
    str, Member(_said_by, type="string"), doc("Who does it, for the audit log; the address unless told.", "ann")
]


class DrainBody(Body):
    """The time for which holders of the node's slots may keep them."""

    optional = True
    deadline_seconds: Annotated[
        float | None, number(1, DRAIN_DEADLINE_MAX_S), doc("What is lent ends after so many; never unless told.", 600)
    ] = None


class SwitchBody(Body):
    """The switch of expiry; null leaves expiry to the settings of each hub."""

    nulls = True
    expire: Annotated[
        bool | None, Member(_switch, type=["boolean", "null"]), doc("Whether they do; null for the settings.", True)
    ]
    by: By = ""

    @classmethod
    def _refusal(cls, fault: ErrorDetails) -> MissingMember | InvalidValue:
        return InvalidValue("expire must be true, false or null", member="expire")


class CapBody(Body):
    """The cap of a label; null clears a cap that was set at run time."""

    nulls = True
    missing = {"cap": ("missing cap: a whole number, 0 for no limit, or null to clear it", "cap")}
    cap: Annotated[
        int | None,
        Member(
            lambda value, name: None if value is None else _CAP.read(value, name),
            type=["integer", "null"],
            minimum=0,
            maximum=CAP_MAX,
        ),
        doc("Most leases in flight under the label; 0 for no limit, null clears what was set.", 4),
    ]
    served: Annotated[
        bool,
        Member(_flag, type="boolean"),
        doc("Count what the pool and those below it serve, whatever was asked for.", True),
    ] = False
    by: By = ""


class SettingBody(Body):
    """A setting for all hubs; null clears a value that was set at run time."""

    nulls = True
    missing = {"value": ("missing value: a text as in the environment, or null to clear it", "value")}
    value: Annotated[
        str | None,
        Member(_setting, type=["string", "null"], maxLength=SETTING_MAX),
        doc("The value, as it is written in the environment; null clears what was set.", "90"),
    ]
    by: By = ""


class ReleaseBody(Body):
    """The brake that is to be released: the one on nodes or the one on workers."""

    optional = True
    by: By = ""
    of: Annotated[Literal["nodes", "workers"], one_of("nodes", "workers"), doc("Whose brake.", "nodes")] = "nodes"


class SweepBody(Body):
    """A pass of the sweepers; with `dryRun` the pass changes nothing and only reports."""

    nulls = True
    optional = True
    dry_run: Annotated[bool, Member(_flag, type="boolean"), doc("Only say what it would do.", True)] = False


class CordonBody(Body):
    """The reason why no more slots of a node are lent."""

    reason: Annotated[
        str,
        Member(lambda raw, _: check_reason(raw), type="string", minLength=1, maxLength=REASON_MAX),
        doc("Shown with the node, on one line.", "fan is broken"),
    ]


_OF_USERS = ("userId", "superuser", "scopes", "rooms", "labels", "team", "maxPriority")


class TokenBody(Body):
    """A token for exactly one of `user`, `node` and `join`. The members from `userId` to `maxPriority` are for users
    only."""

    user: Annotated[HolderName, doc("The name of a user.", "ann")] = ""
    node: Annotated[
        str,
        Member(reading_with(read_node), type="string", minLength=1, maxLength=512),
        doc("The node it speaks for, and for no other.", NODE_SHOWN),
    ] = ""
    join: Annotated[HolderName, doc("Nodes exchange it for tokens of their own.", "fleet")] = ""
    user_id: Annotated[
        str,
        Member(reading_with(read_user), type="string", format="uuid"),
        doc("Derived from the name when it is left out.", TASK),
    ] = ""
    superuser: Annotated[
        bool, Member(reading_with(read_flag), type="boolean"), doc("Whether the user may do everything.", False)
    ] = False
    scopes: Annotated[
        frozenset[str],
        Member(
            reading_with(read_scopes),
            type="array",
            items={"type": "string", "enum": list(SCOPES)},
            minItems=1,
        ),
        doc("What it is for.", ["submit"]),
    ] = frozenset()
    rooms: Annotated[
        frozenset[str],
        Member(reading_with(read_rooms), type="array", items={"type": "string"}, minItems=1, maxItems=ROOMS_MAX),
        doc("The rooms it is bound to.", ["lab"]),
    ] = frozenset()
    labels: Annotated[
        tuple[str, ...],
        Member(reading_with(read_labels), type="array", items={"type": "string"}, minItems=1, maxItems=LABELS_MAX),
        doc("Patterns of the labels that it may borrow; all when it is left out.", ["gpu:*"]),
    ] = ()
    team: Annotated[
        str, Member(reading_with(read_team), type="string", maxLength=TEAM_MAX), doc("The team of the user.", "ml")
    ] = ""
    max_priority: Annotated[
        int | None,
        Member(reading_with(read_priority), type="integer", minimum=-PRIORITY_MAX, maximum=PRIORITY_MAX),
        doc("The highest priority that it may borrow with; none when it is left out.", 10),
    ] = None
    expires_in_days: Annotated[
        float | None,
        number(0, EXPIRES_MAX_DAYS),
        doc("For how many days it is good; until it is revoked when it is left out.", 90),
    ] = None
    sha256: Annotated[
        Digest, doc("The digest of a secret that the caller made and keeps to itself.", "9f86d081884c7d65" * 4)
    ] = ""

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Read the body; raises `MissingMember` and `InvalidValue`, also for members that exclude one another."""
        kinds: list[str] = [kind for kind in KINDS if document.get(kind) is not None]
        if not kinds:
            raise MissingMember("missing user: the name of the user who will show the token", member="user")
        kind, *excluded = kinds
        if kind != USER:
            excluded += [name for name in _OF_USERS if document.get(name) is not None]
        if excluded:
            raise InvalidValue(f"{excluded[0]} must be left out beside {kind}", member=excluded[0])
        return super().read(document)

    @property
    def holder(self) -> Holder:
        """Return the holder of the token: a user, a node, or the nodes that join with it."""
        if self.node:
            return Holder(self.node, user_of(self.node), kind=NODE)
        if self.join:
            return Holder(self.join, user_of(self.join), kind=JOIN)
        user = self.user_id or user_of(self.user)
        return Holder(
            self.user, user, self.superuser, scopes=self.scopes, rooms=self.rooms, team=self.team, labels=self.labels,
            max_priority=self.max_priority,
        )  # fmt: skip

    @property
    def lives_s(self) -> float | None:
        """Return for how many seconds the token is good; None: until it is revoked."""
        return None if self.expires_in_days is None else self.expires_in_days * 86_400

"""What borrowers and operators may send: each body is a model, which reads it, and holds and shows its limits.

The bodies of nodes are in `node_bodies`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, cast

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails
from pydantic_core.core_schema import any_schema, float_schema

from hub.api.shapes import neutral
from hub.api.shapes.fields import RUN, SLOT, TOKEN, told
from hub.api.shapes.readers import (
    LABEL,
    Member,
    Text,
    Truth,
    UnlessFalse,
    as_seconds,
    as_text,
    given_text,
    number,
    to_wire,
    whole,
)
from hub.capacity.models import RUN_MAX
from hub.capacity.nodes.models import DRAIN_DEADLINE_MAX_S
from hub.errors import InvalidValue, MissingMember
from hub.settings.realms import SPILL_MAX, read_others

LEASES_MAX = 1000
REASON_MAX = 200
RUN_NAME_MAX = 128
WAIT_MAX_S = 86_400
WATCH_MAX_S = 30
CAP_MAX = 999_999_999
SETTING_MAX = 10_000  # characters: some hundred caps
_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 ._-")
_BROWSER: Mapping[str, tuple[str, ...]] = {"browserId": ("browserId", "slotId")}
_NEITHER = "missing labelKey|browserId"
_NOT_HELD = "each of leases needs browserId and leaseToken"


class Body(BaseModel):
    """A JSON object: unknown members are ignored, null counts as nothing, and the first fault is refused."""

    model_config = ConfigDict(alias_generator=to_wire)
    spellings: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """The names of a member that has several; the first that is there counts."""
    missing: ClassVar[Mapping[str, tuple[str, str]]] = {}
    """What is said of a member that must be there, and what it is called there."""
    nulls: ClassVar[bool] = False
    """Whether null means something."""

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """The body; raises `MissingMember` and `InvalidValue`."""
        if not cls.nulls and None in document.values():
            document = {name: value for name, value in document.items() if value is not None}
        for name, spelled in cls.spellings.items():
            if spelled[0] != name or name not in document:
                document = _called(document, name, spelled)
        try:
            return cast(Self, cls.__pydantic_validator__.validate_python(document))
        except ValidationError as error:
            raise cls._refusal(error.errors(include_url=False)[0]) from None

    @classmethod
    def reader(cls, name: str) -> Callable[[Any], Any]:
        """What reads this member, for those who read a body by hand."""
        (field,) = (field for field in cls.model_fields.values() if field.alias == name)
        (found,) = (each for each in field.metadata if isinstance(each, Member))
        return lambda value: found.read(value, name)

    @classmethod
    def _refusal(cls, fault: ErrorDetails) -> MissingMember | InvalidValue:
        name = str(fault["loc"][0])
        if fault["type"] == "missing":
            said, called = cls.missing.get(name, (f"missing {name}", name))
            return MissingMember(said, member=called)
        return InvalidValue(f"{name}: {fault['msg']}", member=name)


def _called(document: Mapping[str, Any], name: str, spelled: tuple[str, ...]) -> Mapping[str, Any]:
    found = next((other for other in spelled if other in document), name)
    return document if found == name else {**document, name: document[found]}


def _run_name(value: Any, name: str) -> str:
    said = as_text(value, name).strip()
    if len(said) > RUN_NAME_MAX:
        raise InvalidValue(f"{name} has at most {RUN_NAME_MAX} characters", member=name)
    if any(ord(c) < 32 or 127 <= ord(c) < 160 for c in said):
        raise InvalidValue(f"{name} must not contain control characters", member=name)
    if not set(said) <= _PLAIN:
        raise InvalidValue(f"{name} may contain letters, digits, blanks and . _ - only", member=name)
    return said


def _why(value: Any, name: str) -> str:
    said = as_text(value, name).strip()
    if len(said) > REASON_MAX or not said.isprintable():
        raise InvalidValue(f"{name} has at most {REASON_MAX} characters, and no control characters", member=name)
    return said


def _ttl(value: Any, name: str) -> float:
    found = as_seconds(value)
    if found is None:
        raise InvalidValue(f"{name} must be a number of seconds", member=name)
    return found


def _any_ttl(value: Any, _: str) -> float | None:
    return as_seconds(value)


def _leases(value: Any, name: str) -> list[tuple[str, str]]:
    if not isinstance(value, list) or not value:
        raise MissingMember(WatchBody.missing[name][0], member=name)
    if len(value) > LEASES_MAX:
        raise InvalidValue(f"{name} has {len(value)} entries; at most {LEASES_MAX} in one call", member=name)
    found = [HeldBody.read(neutral.said(each) if isinstance(each, dict) else {}) for each in value]
    return [(each.browser_id.strip(), each.lease_token) for each in found]


def _realms(value: Any, name: str) -> tuple[str, ...]:
    try:
        return read_others(value)
    except ValueError as error:
        raise InvalidValue(f"{name} {error}", member=name) from None


def _flag(value: Any, name: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidValue(f"{name} must be true or false", member=name)
    return value


def _switch(value: Any, name: str) -> bool | None:
    if not (value is None or isinstance(value, bool)):
        raise InvalidValue(f"{name} must be true, false or null", member=name)
    return value


def _braked(value: Any, name: str) -> str:
    if value not in ("nodes", "workers"):
        raise InvalidValue(f"{name} must be nodes or workers", member=name)
    return str(value)


def _said_by(value: Any, name: str) -> str:
    return "" if value is None else as_text(value, name)


def _setting(value: Any, name: str) -> str | None:
    if isinstance(value, str) and len(value) > SETTING_MAX:
        raise InvalidValue(f"{name} has at most {SETTING_MAX} characters", member=name)
    return None if value is None else as_text(value, name)


_FINITE = float_schema(strict=True, allow_inf_nan=False)
_CAP = whole(0, CAP_MAX)
RunId = Annotated[
    Any,
    Member(lambda value, _: value, any_schema(), type="string", maxLength=RUN_MAX),
    told("The run, looked at where neither a header nor the query names it.", RUN),
]
By = Annotated[
    str, Member(_said_by, type="string"), told("Who does it, for the audit log; the address unless told.", "ann")
]
Slot = told("The id of the slot; it may be called `slotId` as well.", SLOT)
Token = told("The fencing token of the lease.", TOKEN)


class BorrowBody(Body):
    """What a borrower asks for."""

    label_key: Annotated[str, LABEL]
    ttl_seconds: Annotated[
        float | None,
        Member(_any_ttl, _FINITE, type=["number", "string"]),
        told("After so many seconds the lease lapses unless it is renewed.", 60),
    ] = None
    run_name: Annotated[
        str, Member(_run_name, type="string", maxLength=RUN_NAME_MAX), told("What people call the run.", "nightly")
    ] = ""
    run_id: RunId = None
    priority: Annotated[int, whole(-100, 100), told("The higher one is served first.", 0)] = 0
    max_wait_seconds: Annotated[
        float | None, number(0, WAIT_MAX_S), told("Refused at once when the wait is expected to take longer.", 20)
    ] = None
    wait_for_pool: Annotated[UnlessFalse, told("False refuses at once where no pool serves the label.", False)] = True
    realms: Annotated[
        tuple[str, ...],
        Member(_realms, type="array", maxItems=SPILL_MAX, items={"type": "string"}),
        told("Where it may be served. It waits in the first, unless the call names another.", ["eu", "us"]),
    ] = ()


class ReturnBody(Body):
    """A slot that is given back, or with `revoke` or `force` taken from its holder."""

    spellings = _BROWSER
    missing = dict.fromkeys(("labelKey", "browserId"), (_NEITHER, "labelKey|browserId"))
    label_key: Annotated[str, LABEL]
    browser_id: Annotated[str, given_text(_NEITHER, "labelKey|browserId"), Slot]
    lease_token: Annotated[
        Text, told("The fencing token: no other lease is ended than the one that has it.", TOKEN)
    ] = ""
    revoke: Annotated[Truth, told("End somebody else's lease; its holder is told and has a grace.", False)] = False
    force: Annotated[Truth, told("The same, without a grace.", False)] = False
    only_run: Annotated[Truth, told("End no lease but one of the run that the call names.", False)] = False
    reason: Annotated[
        str, Member(_why, type="string", maxLength=REASON_MAX), told("Why, for the audit log.", "the rack is on fire")
    ] = ""
    run_id: RunId = None


class RenewBody(Body):
    """A lease that is to go on."""

    spellings = _BROWSER
    browser_id: Annotated[str, given_text("missing browserId"), Slot]
    lease_token: Annotated[Text, Token] = ""
    ttl_seconds: Annotated[
        float | None, Member(_ttl, type="number"), told("For how many seconds; as long as before unless told.", 60)
    ] = None


class HeldBody(Body):
    """A lease that somebody holds."""

    spellings = _BROWSER
    missing = dict.fromkeys(("browserId", "leaseToken"), (_NOT_HELD, "leases"))
    browser_id: Annotated[str, given_text(_NOT_HELD, "leases"), Slot]
    lease_token: Annotated[str, given_text(_NOT_HELD, "leases"), Token]


class WatchBody(Body):
    """Leases whose end is waited for."""

    missing = {"leases": ("missing leases: name at least one, as {browserId, leaseToken}", "leases")}
    wait_seconds: Annotated[
        float, number(0, WATCH_MAX_S, "is a number"), told("How long to wait for the first of them.", 20)
    ] = 0.0
    leases: Annotated[
        list[tuple[str, str]],
        Member(
            _leases,
            type="array",
            minItems=1,
            maxItems=LEASES_MAX,
            items=HeldBody,
        ),
        told("Those that the caller holds.", []),
    ]


class AttributeBody(Body):
    """Which test runs on a slot."""

    test_id: Annotated[str, given_text("missing testId"), told("The test.", "login.spec.ts")]
    run_id: RunId = None


class DrainBody(Body):
    """How long those who hold slots of the node may keep them."""

    deadline_seconds: Annotated[
        float | None, number(1, DRAIN_DEADLINE_MAX_S), told("What is lent ends after so many; never unless told.", 600)
    ] = None


class SwitchBody(Body):
    """Whether nodes expire; null for what each hub was set up with."""

    nulls = True
    expire: Annotated[
        bool | None, Member(_switch, type=["boolean", "null"]), told("Whether they do; null for the settings.", True)
    ]
    by: By = ""

    @classmethod
    def _refusal(cls, fault: ErrorDetails) -> MissingMember | InvalidValue:
        return InvalidValue("expire must be true, false or null", member="expire")


class CapBody(Body):
    """The cap of a label; null clears what was set."""

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
        told("Most leases in flight under the label; 0 for no limit, null clears what was set.", 4),
    ]
    by: By = ""


class SettingBody(Body):
    """A setting of all hubs; null clears what was set."""

    nulls = True
    missing = {"value": ("missing value: a text as in the environment, or null to clear it", "value")}
    value: Annotated[
        str | None,
        Member(_setting, type=["string", "null"], maxLength=SETTING_MAX),
        told("The value, as it is written in the environment; null clears what was set.", "90"),
    ]
    by: By = ""


class ReleaseBody(Body):
    """Whose brake is released."""

    by: By = ""
    of: Annotated[
        Literal["nodes", "workers"],
        Member(_braked, type="string", enum=["nodes", "workers"]),
        told("Whose brake.", "nodes"),
    ] = "nodes"


class SweepBody(Body):
    """Whether the pass only says what it would do."""

    nulls = True
    dry_run: Annotated[bool, Member(_flag, type="boolean"), told("Only say what it would do.", True)] = False

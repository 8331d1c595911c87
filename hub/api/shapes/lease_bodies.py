"""The bodies that borrowers send."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic_core.core_schema import any_schema, float_schema

from hub.api.shapes import neutral
from hub.api.shapes.body import Body
from hub.api.shapes.fields import RUN, SLOT, TOKEN, doc
from hub.api.shapes.readers import (
    LABEL,
    TEXT,
    Flag,
    Member,
    Text,
    Truth,
    as_seconds,
    as_text,
    given_text,
    number,
    whole,
)
from hub.capacity.attributes import PREFER_MAX, read_keys
from hub.capacity.models import RUN_MAX
from hub.errors import InvalidValue, MissingMember
from hub.settings.realms import SPILL_MAX, read_others

ANY_OF_MAX = 4
LEASES_MAX = 1000
REASON_MAX = 200
RUN_NAME_MAX = 128
NAME_MAX = 200
WAIT_MAX_S = 86_400
WATCH_MAX_S = 30


_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 ._-")
_BROWSER: Mapping[str, tuple[str, ...]] = {"browserId": ("browserId", "slotId")}
_NEITHER = "missing labelKey|browserId"
_NOT_HELD = "each of leases needs browserId and leaseToken"


def _run_name(value: Any, name: str) -> str:
    text = as_text(value, name).strip()
    if len(text) > RUN_NAME_MAX:
        raise InvalidValue(f"{name} has at most {RUN_NAME_MAX} characters", member=name)
    if any(ord(c) < 32 or 127 <= ord(c) < 160 for c in text):
        raise InvalidValue(f"{name} must not contain control characters", member=name)
    if not set(text) <= _PLAIN:
        raise InvalidValue(f"{name} may contain letters, digits, blanks and . _ - only", member=name)
    return text


def read_reason(value: Any, name: str) -> str:
    """Return the reason of an operator without blanks around it; raises `InvalidValue`."""
    text = as_text(value, name).strip()
    if len(text) > REASON_MAX or not text.isprintable():
        raise InvalidValue(f"{name} has at most {REASON_MAX} characters, and no control characters", member=name)
    return text


def ttl(value: Any, name: str) -> float:
    """Return a length in seconds; raises `InvalidValue`."""
    seconds = as_seconds(value)
    if seconds is None:
        raise InvalidValue(f"{name} must be a number of seconds", member=name)
    return seconds


def _any_ttl(value: Any, _: str) -> float | None:
    return as_seconds(value)


def _leases(value: Any, name: str) -> list[tuple[str, str]]:
    if not isinstance(value, list) or not value:
        raise MissingMember(WatchBody.missing[name][0], member=name)
    if len(value) > LEASES_MAX:
        raise InvalidValue(f"{name} has {len(value)} entries; at most {LEASES_MAX} in one call", member=name)
    leases = [HeldBody.read(neutral.in_old_names(lease) if isinstance(lease, dict) else {}) for lease in value]
    return [(lease.browser_id.strip(), lease.lease_token) for lease in leases]


def _heard(value: Any, name: str) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(reason, str) for reason in value.values()):
        raise InvalidValue(f"{name} must be an object of slot id: what was heard last", member=name)
    return value


def _realms(value: Any, name: str) -> tuple[str, ...]:
    try:
        return read_others(value)
    except ValueError as error:
        raise InvalidValue(f"{name} {error}", member=name) from None


_FINITE = float_schema(strict=True, allow_inf_nan=False)

TtlIsDefault = Annotated[
    Flag,
    doc("`ttlSeconds` is a default of the client: the `ttlSeconds` of the rule of the pool replaces it.", False),
]
RunId = Annotated[
    Any,
    Member(lambda value, _: value, any_schema(), type="string", maxLength=RUN_MAX),
    doc("The run, looked at where neither a header nor the query names it.", RUN),
]

Slot = doc("The id of the slot; it may be called `slotId` as well.", SLOT)
Token = doc("The fencing token of the lease.", TOKEN)


def _name(value: Any, name: str) -> str:
    text = as_text(value, name).strip()
    if len(text) > NAME_MAX or not (text.isprintable() or not text):
        raise InvalidValue(f"{name} has at most {NAME_MAX} characters, and no control characters", member=name)
    return text


def _prefer(value: Any, name: str) -> str:
    return read_keys(value, name, PREFER_MAX)


Where = Annotated[
    Text, doc("What the slot must be like: comparisons of its attributes, in a subset of CEL.", "vram >= 40")
]


class AlternativeBody(Body):
    """One of the things that a borrow takes."""

    missing = {"labelKey": ("each of anyOf needs a label", "anyOf")}
    label_key: Annotated[str, LABEL]
    where: Where = ""


def read_any_of(value: Any, name: str) -> list[AlternativeBody]:
    """Return the alternatives of a borrow, the best first; raises `InvalidValue` and `MissingMember`."""
    if not isinstance(value, list) or len(value) > ANY_OF_MAX or not all(isinstance(each, dict) for each in value):
        raise InvalidValue(f"{name} must be a list of at most {ANY_OF_MAX} objects with label and where", member=name)
    return [AlternativeBody.read(neutral.in_old_names(each)) for each in value]


class TermsBody(Body):
    """The terms of a borrow: for how long, for whom, and how long it waits."""

    ttl_seconds: Annotated[
        float | None,
        Member(_any_ttl, _FINITE, type=["number", "string"]),
        doc("After so many seconds the lease lapses unless it is renewed.", 60),
    ] = None
    ttl_is_default: TtlIsDefault = False
    run_name: Annotated[
        str, Member(_run_name, type="string", maxLength=RUN_NAME_MAX), doc("What people call the run.", "nightly")
    ] = ""
    name: Annotated[
        str,
        Member(_name, type="string", maxLength=NAME_MAX),
        doc("What the borrower calls itself. Default: the name of the run, else its address.", "ann@laptop:pytest"),
    ] = ""
    run_id: RunId = None
    priority: Annotated[int, whole(-100, 100), doc("The higher one is served first.", 0)] = 0
    max_wait_seconds: Annotated[
        float | None, number(0, WAIT_MAX_S), doc("Refused at once when the wait is expected to take longer.", 20)
    ] = None


class BorrowBody(TermsBody):
    """A borrow: the label that is asked for, and the terms of the lease."""

    label_key: Annotated[str, LABEL] = ""
    where: Where = ""
    any_of: Annotated[
        list[AlternativeBody],
        Member(read_any_of, type="array", maxItems=ANY_OF_MAX, items=AlternativeBody),
        doc("What else will do, the best first; `label` and `where` come before these and may be left out.", []),
    ] = []
    prefer: Annotated[
        str,
        Member(_prefer, type="array", maxItems=PREFER_MAX, items=TEXT),
        doc("Of the free slots that will do, one in which this is warm, the dearest key first.", ["repo-42"]),
    ] = ""
    wait_for_pool: Annotated[Flag, doc("False refuses at once where no pool serves the label.", False)] = True
    realms: Annotated[
        tuple[str, ...],
        Member(_realms, type="array", maxItems=SPILL_MAX, items={"type": "string"}),
        doc("Where it may be served. It waits in the first, unless the call names another.", ["eu", "us"]),
    ] = ()


class ReturnBody(Body):
    """A slot that is given back, or with `revoke` or `force` taken from its holder."""

    spellings = _BROWSER
    missing = dict.fromkeys(("labelKey", "browserId"), (_NEITHER, "labelKey|browserId"))
    label_key: Annotated[str, LABEL]
    browser_id: Annotated[str, given_text(_NEITHER, "labelKey|browserId"), Slot]
    lease_token: Annotated[Text, doc("The fencing token: no other lease is ended than the one that has it.", TOKEN)] = (
        ""
    )
    revoke: Annotated[Truth, doc("End a lease of another holder, which is told and has a grace.", False)] = False
    force: Annotated[Truth, doc("The same, without a grace.", False)] = False
    only_run: Annotated[Truth, doc("End no lease but one of the run that the call names.", False)] = False
    reason: Annotated[
        str,
        Member(read_reason, type="string", maxLength=REASON_MAX),
        doc("Why, for the audit log.", "the rack is on fire"),
    ] = ""
    run_id: RunId = None

    @property
    def revokes(self) -> str:
        """Return the script's word for taking a lease from its holder: `1` with a grace, `2` at once, empty for a plain
        return."""
        return "2" if self.force else "1" if self.revoke else ""


class RenewBody(Body):
    """A lease that its holder extends."""

    spellings = _BROWSER
    browser_id: Annotated[str, given_text("missing browserId"), Slot]
    lease_token: Annotated[Text, Token] = ""
    ttl_seconds: Annotated[
        float | None, Member(ttl, type="number"), doc("For how many seconds; as long as before unless told.", 60)
    ] = None
    ttl_is_default: TtlIsDefault = False


class HeldBody(Body):
    """A lease, named by its slot and its token."""

    spellings = _BROWSER
    missing = dict.fromkeys(("browserId", "leaseToken"), (_NOT_HELD, "leases"))
    browser_id: Annotated[str, given_text(_NOT_HELD, "leases"), Slot]
    lease_token: Annotated[str, given_text(_NOT_HELD, "leases"), Token]


class WatchBody(Body):
    """The leases whose end the caller waits for, and for how many seconds it waits."""

    missing = {"leases": ("missing leases: name at least one, as {browserId, leaseToken}", "leases")}
    wait_seconds: Annotated[
        float, number(0, WATCH_MAX_S, "is a number"), doc("How long to wait for the first of them.", 20)
    ] = 0.0
    leases: Annotated[
        list[tuple[str, str]],
        Member(_leases, type="array", minItems=1, maxItems=LEASES_MAX, items=HeldBody),
        doc("Those that the caller holds.", []),
    ]
    unwell: Annotated[
        dict[str, str] | None,
        Member(_heard, type="object", additionalProperties=TEXT),
        doc(
            "Asks also for slots that are held because they are unwell: slot id to the last reason heard, or left out "
            "for none. The call returns as soon as one of them has another.",
            {},
        ),
    ] = None
    ending: Annotated[
        dict[str, str] | None,
        Member(_heard, type="object", additionalProperties=TEXT),
        doc(
            "Asks also for leases that are about to end by the rules of their pools: slot id to the last `end` heard, "
            "or left out for none. The call returns as soon as one of them has another.",
            {},
        ),
    ] = None


class AttributeBody(Body):
    """The test to which a slot is mapped: the test that runs on it."""

    test_id: Annotated[str, given_text("missing testId"), doc("The test.", "login.spec.ts")]
    run_id: RunId = None

"""The bodies and answers about hooks."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

from typing_extensions import TypedDict

from hub.api.shapes import fields as w
from hub.api.shapes.body import Body
from hub.api.shapes.fields import doc
from hub.api.shapes.operator_bodies import HolderName
from hub.api.shapes.readers import Member, one_of, reading_with
from hub.capacity.labels import LENGTH_MAX, parse_label
from hub.errors import InvalidLabel, InvalidValue
from hub.hooks.addresses import URL_MAX, read_url
from hub.hooks.messages import FORMATS, TYPES, Format, read_secret, read_types


def _pattern(value: Any, name: str) -> str:
    """Return a pattern of labels; `*` alone stands for all of them, as the empty pattern does."""
    try:
        return parse_label(str(value), segments_min=1).text if value != "*" else ""
    except InvalidLabel as error:
        raise InvalidValue(f"{name} must be a label such as gpu:* ({error.facts.get('reason')})", member=name) from None


_ON: Any = {"type": "array", "items": {"type": "string", "enum": list(TYPES)}, "minItems": 1}
_URL = Member(reading_with(read_url), type="string", format="uri", maxLength=URL_MAX)


class HookBody(Body):
    """A hook: where messages go, and which."""

    url: Annotated[str, _URL, doc("Where messages are posted: http or https.", "https://hooks.example/hub")]
    on: Annotated[str, Member(reading_with(read_types), **_ON), doc("Types of messages.", ["lease.ended"])]
    label: Annotated[
        str, Member(_pattern, type="string", maxLength=LENGTH_MAX), doc("Only what is about such a label.", "gpu:*")
    ] = ""
    user: Annotated[HolderName, doc("Only what is about leases of this user.", "ann")] = ""
    format: Annotated[str, one_of(*FORMATS), doc("The form of messages.", "slack")] = "json"
    secret: Annotated[
        str,
        Member(reading_with(read_secret), type="string", pattern="^whsec_"),
        doc("A secret that the caller made; with it the call may be repeated.", "whsec_" + "A" * 32),
    ] = ""


class HookShape(TypedDict):
    """A hook, without its secret."""

    id: Annotated[str, doc("The first digits of the digest of its secret.", "3b0c44298fc1c149")]
    url: Annotated[str, doc("Where messages are posted.", "https://hooks.example/hub")]
    on: Annotated[list[str], doc("Types of messages.", ["lease.ended"])]
    label: Annotated[str | None, doc("Only what is about such a label; null for all.", "gpu:*")]
    user: Annotated[str | None, doc("Only what is about leases of this user; null for all.", "ann")]
    format: Annotated[Format, doc("The form of messages.", "json")]
    addedBy: Annotated[str, doc("The credential that added it.", "admin")]
    addedAt: w.Utc
    paused: Annotated[str | None, doc("Why nothing is sent; null while messages are.", "it answered 410")]
    waiting: Annotated[int, doc("Messages that wait.", 0, ge=0)]
    delivered: Annotated[int, doc("Messages that it took.", 42, ge=0)]
    failed: Annotated[int, doc("Tries that failed.", 0, ge=0)]
    dropped: Annotated[int, doc("Messages dropped because too many waited.", 0, ge=0)]
    last: Annotated[str | None, doc("What came of the last try; `ok` for a message that it took.", "ok")]
    lastAt: Annotated[str | None, doc("When that was.", w.TIME, json_schema_extra=w.DATE_TIME)]
    secret: NotRequired[Annotated[str, doc("Signs messages: here and never again.", "whsec_" + "A" * 32)]]


class HooksShape(TypedDict):
    """All hooks."""

    total: w.Total
    hooks: Annotated[list[HookShape], doc("They, newest first.", [])]


class HookTestShape(TypedDict):
    """What came of a test message."""

    id: Annotated[str, doc("The id of the hook.", "3b0c44298fc1c149")]
    delivered: Annotated[bool, doc("Whether it took the message.", True)]
    said: Annotated[str, doc("`ok`, or what came of it.", "it answered 500")]

"""The readers of members in bodies about capacity: how each kind of member is read, what is refused, and its schema in
OpenAPI.

Members are read leniently where the wire says so. A reader raises the refusal itself, so that the text is the hub's and
not pydantic's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic.alias_generators import to_camel
from pydantic_core.core_schema import (
    CoreSchema,
    bool_schema,
    float_schema,
    int_schema,
    str_schema,
    union_schema,
    with_info_plain_validator_function,
)

from hub.capacity.nodes.models import INCARNATION, check_incarnation
from hub.errors import InvalidValue, MissingMember
from hub.tokens.models import read_digest


@cache
def to_wire(name: str) -> str:
    """Return the name of a field on the wire, in camelCase."""
    return to_camel(name)


def as_text(value: Any, name: str) -> str:
    """Return a value as text; numbers and booleans become the text that JSON has for them. Raises `InvalidValue` for
    any other value."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise InvalidValue(f"{name} must be text", member=name)


def as_seconds(value: Any) -> float | None:
    """Return a duration in seconds from a number or numeric text; None when it cannot be read as one."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def whole_number(value: Any, name: str, low: int, high: int) -> int:
    """Return a value as a whole number within these bounds; raises `InvalidValue`, which names the bounds."""
    try:
        number = int(str(value)) if isinstance(value, str | int | float) else low - 1
    except ValueError:
        number = low - 1
    if isinstance(value, bool) or not low <= number <= high:
        raise InvalidValue(f"{name} must be a whole number from {low} to {high}", member=name)
    return number


class Member:
    """An annotation of a field: the field's value is what `read(value, name)` returns, and OpenAPI shows `schema`. A
    model in `schema` stands for a reference to the model's schema.

    A value that fits `plain` is taken as it is, without calling `read`, because most values are right.
    """

    def __init__(self, read: Callable[[Any, str], Any], plain: CoreSchema | None = None, /, **schema: Any) -> None:
        self.read = read
        self.plain = plain
        self.schema = schema

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        read = self.read

        def validate(value: Any, info: ValidationInfo) -> Any:
            return read(value, to_wire(str(info.field_name)))

        called = with_info_plain_validator_function(validate)
        return called if self.plain is None else union_schema([self.plain, called], mode="left_to_right")

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {
            name: {"x-model": each.__name__} if isinstance(each, type) else each for name, each in self.schema.items()
        }


def reading_with(read: Callable[[Any], Any]) -> Callable[[Any, str], Any]:
    """Return a reader of a member that calls `read`, and raises `InvalidValue` for a value that `read` refuses."""

    def read_member(value: Any, name: str) -> Any:
        try:
            return read(value)
        except ValueError as error:
            raise InvalidValue(f"{name} {error}", member=name) from None

    return read_member


_NOT_BLANK = r"[^\s\x1c-\x1f]"  # what `str.strip` keeps, as a pattern of pydantic's library


def given_text(missing: str, named: str = "") -> Member:
    """Return the reader of a text that must not be blank. A blank text is refused with the text `missing`, as the
    member `named`."""

    def read(value: Any, name: str) -> str:
        if not (text := as_text(value, name)).strip():
            raise MissingMember(missing, member=named or name)
        return text

    return Member(read, str_schema(strict=True, pattern=_NOT_BLANK), type="string")


def whole(low: int, high: int, **schema: Any) -> Member:
    """Return the reader of a whole number within bounds."""

    def read(value: Any, name: str) -> int:
        return whole_number(value, name, low, high)

    plain = int_schema(strict=True, ge=low, le=high)
    return Member(read, plain, type="integer", minimum=low, maximum=high, **schema)


def number(low: int, high: int, wanted: str = "must be a number") -> Member:
    """Return the reader of a number of seconds within bounds. `wanted` is the text of the refusal between the member's
    name and the bounds."""

    def read(value: Any, name: str) -> float:
        seconds = as_seconds(value)
        if seconds is None or not low <= seconds <= high:
            raise InvalidValue(f"{name} {wanted} from {low} to {high}", member=name)
        return seconds

    plain = float_schema(strict=True, ge=low, le=high, allow_inf_nan=False)
    return Member(read, plain, type="number", minimum=low, maximum=high)


def _flag(value: Any, name: str) -> bool:
    raise InvalidValue(f"{name} must be true or false", member=name)


def one_of(*words: str) -> Member:
    """Return the reader of one of these words."""

    def read(value: Any, name: str) -> str:
        if value not in words:
            raise InvalidValue(f"{name} must be {' or '.join(words)}", member=name)
        return str(value)

    return Member(read, type="string", enum=list(words))


TEXT = {"type": "string"}
TEXTS = {"type": "object", "additionalProperties": TEXT}
STRING = str_schema(strict=True)
LABEL = Member(as_text, STRING, type="string", description="Two to eight segments.", examples=["gpu:a100:eu"])
Text = Annotated[str, Member(as_text, STRING, type="string")]
Truth = Annotated[bool, Member(lambda value, _: value is True, bool_schema(strict=True), type="boolean")]
"""True for `true`, and False for any other value."""
Flag = Annotated[bool, Member(_flag, bool_schema(strict=True), type="boolean")]
"""`true` or `false`; any other value is refused."""
Digest = Annotated[str, Member(reading_with(read_digest), type="string", pattern="^[0-9a-f]{64}$")]
Incarnation = Annotated[
    str,
    Member(
        lambda value, _: check_incarnation(value),
        type="string",
        pattern=f"^{INCARNATION.pattern}$",
        description="A name of this very process, another one after each start. Who registers with a new one takes "
        "over: the process before is told `superseded` with its next beat, and what it still sends changes nothing.",
        examples=["c0ffee01"],
    ),
]

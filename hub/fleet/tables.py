"""The keys of an entry of the fleet file, and the readers of durations and sizes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from hub.capacity.attributes import read_attributes, read_warm
from hub.capacity.labels import parse_label
from hub.errors import InvalidLabel, InvalidValue
from hub.fleet.templates import checked, did_you_mean

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_UNITS_BYTES = {"K": 2**10, "M": 2**20, "G": 2**30}
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")


def _reader(units: dict[str, float], what: str, example: str) -> BeforeValidator:
    def read(value: Any) -> float:
        found = _NUMBER.fullmatch(value.strip()) if isinstance(value, str) else None
        if found is None:
            raise ValueError(f"is no {what}: write a number and its unit as text, such as {example!r}")
        if found[2] not in units:
            near = [repr(found[1] + unit) for unit in units if unit[0].lower() == found[2][:1].lower()]
            hint = f"did you mean {near[-1]}?" if near else f"the units are {', '.join(units)}"
            raise ValueError(f"has no known unit: {value!r}; {hint}")
        return float(found[1]) * units[found[2]]

    return BeforeValidator(read)


Seconds = Annotated[float, _reader(_UNITS_S, "duration", "2s")]
"""A duration such as "500ms", "2s" or "1h", in seconds."""
Bytes = Annotated[float, _reader(dict(_UNITS_BYTES), "size", "1500M")]
"""A size such as "1500M" or "2G", in bytes."""
Template = Annotated[str, AfterValidator(checked)]
"""A text with the names {item}, {slot}, {port}, {host}, {index} and {node}."""


def _label(text: str) -> str:
    try:
        return parse_label(text).text
    except InvalidLabel as error:
        why = str(error.detail).partition(": ")[2].rpartition(" (")[0]
        raise ValueError(f"{text!r} is no label: {why}") from None


def _attributes(given: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_checked(read_attributes, given))
    return found


def _warm(given: list[Any]) -> list[str]:
    return _checked(read_warm, given).split()


def _checked(read: Callable[[Any], str], given: Any) -> str:
    try:
        return read(given)
    except InvalidValue as error:
        raise PydanticCustomError("described", "{why}", {"why": str(error).partition(": ")[2] or str(error)}) from None


class Strict(BaseModel):
    """A table of the fleet file: no key but its fields, no value of another type."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @model_validator(mode="before")
    @classmethod
    def _has_only_known_keys(cls, given: Any) -> Any:
        for key in given if isinstance(given, dict) else ():
            if key not in cls.model_fields:
                hint = did_you_mean(key, cls.model_fields)
                raise PydanticCustomError("unknown_key", "{key} is unknown; {hint}", {"key": key, "hint": hint})
        return given


class Action(Strict):
    """A command of the fleet file; in place of the table its list of words will do."""

    command: Annotated[list[Template], Field(min_length=1)]
    timeout: Seconds = 60.0


Command = Annotated[Action, BeforeValidator(lambda given: {"command": given} if isinstance(given, list) else given)]


class CheckTable(Strict):
    """How the slots of a pool are checked."""

    every: Seconds = 5.0
    timeout: Seconds = 3.0
    down_after: Annotated[int, Field(ge=1)] = 2
    """Checks that fail one after the other before the slot is held and started anew."""
    up_after: Annotated[int, Field(ge=1)] = 1
    """Checks that succeed one after the other before it is lent again."""


class RecycleTable(Strict):
    """When a slot is made anew as a whole at the end of a lease; without a bound, its driver makes it fresh."""

    uses: Annotated[int, Field(ge=1)] | None = None
    age: Seconds | None = None
    memory: Bytes | None = None


class PoolTable(Strict):
    """The keys that each `[[pools]]` entry may have."""

    label: Annotated[str, AfterValidator(_label)]
    driver: str
    check: CheckTable = CheckTable()
    recycle: RecycleTable = RecycleTable()
    start_timeout: Seconds = 120.0
    address: Template | Action | None = None
    """Where a borrower reaches the slot, or a command that prints it; without it, what the driver says."""
    attributes: Annotated[dict[str, Any], AfterValidator(_attributes)] = Field(default_factory=dict)
    """Facts of each slot by which borrowers choose; they win over those of the driver."""
    warm: Annotated[list[str], AfterValidator(_warm)] = Field(default_factory=list)
    """Keys of what is warm in each slot, such as the name of a repository, for borrowers that prefer it."""

    def without_size(self) -> dict[str, Any]:
        """Return what the slots of the pool are made of; when only the rest changes, those that stay run on."""
        return self.model_dump(exclude={"count", "items"})

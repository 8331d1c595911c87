"""The body of a call about capacity: a model that reads the body, holds its limits, and is shown in the contract."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self, cast

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from hub.api.shapes.readers import to_wire
from hub.errors import InvalidValue, MissingMember


class Body(BaseModel):
    """A JSON object in the body of a call. Unknown members are ignored, null counts as a missing member, and only the
    first fault is reported."""

    model_config = ConfigDict(alias_generator=to_wire)
    spellings: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """The names of each member that has several, by its own name; the first one that the body has counts."""
    missing: ClassVar[Mapping[str, tuple[str, str]]] = {}
    """By required member: the text of the refusal of a body without it, and the name of the member in that refusal."""
    nulls: ClassVar[bool] = False
    """Whether null is a value; otherwise a member with null counts as missing."""
    optional: ClassVar[bool] = False
    """Whether the body may be left out."""

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Return the body as this model; raises `MissingMember` and `InvalidValue`."""
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
    def _refusal(cls, fault: ErrorDetails) -> MissingMember | InvalidValue:
        name = str(fault["loc"][0])
        if fault["type"] == "missing":
            text, member = cls.missing.get(name, (f"missing {name}", name))
            return MissingMember(text, member=member)
        return InvalidValue(f"{name}: {fault['msg']}", member=name)


def _called(document: Mapping[str, Any], name: str, spelled: tuple[str, ...]) -> Mapping[str, Any]:
    spelling = next((other for other in spelled if other in document), name)
    return document if spelling == name else {**document, name: document[spelling]}

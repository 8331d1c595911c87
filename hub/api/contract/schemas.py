"""Schemas for the contract: with names, without the members that pydantic adds, and each with an example."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from pydantic import BaseModel, TypeAdapter

from hub.api.shapes.readers import Member

_REF: Final = "#/components/schemas/"


class Components:
    """The named schemas of a document."""

    def __init__(self, shapes: Iterable[Any]) -> None:
        """Make the schemas of these types, and of all types that they contain."""
        self.responses: dict[str, Any] = {}
        self._keys: dict[str, Any] = {}
        wanted = []
        for number, shape in enumerate(dict.fromkeys(shapes)):
            self._keys[repr(shape)] = number
            wanted.append((number, "validation", TypeAdapter(shape)))
        found, definitions = TypeAdapter.json_schemas(wanted, ref_template=_REF + "{model}")  # type: ignore[arg-type]
        self._schemas = {number: tidied(schema) for (number, _), schema in found.items()}
        named = definitions.get("$defs", {})
        self.schemas: dict[str, Any] = {_called(name): tidied(named[name]) for name in sorted(named, key=_called)}
        for schema in self.schemas.values():
            for member in schema.get("properties", {}).values():
                member["examples"] = [example(member, self.schemas)]

    def of(self, shape: Any) -> dict[str, Any]:
        """Return the schema of a type that `Components` was made with; a reference when the type has a name."""
        found: dict[str, Any] = self._schemas[self._keys[repr(shape)]]
        return found


def models_within(shape: Any) -> Iterator[type[BaseModel]]:
    """Yield the models that the `Member` annotations of a model refer to."""
    for field in getattr(shape, "model_fields", {}).values():
        for member in field.metadata:
            if isinstance(member, Member):
                yield from (value for value in member.schema.values() if isinstance(value, type))


def _called(name: str) -> str:
    """Return the name of a type in the contract, without `Shape`."""
    return name.removesuffix("Shape")


def tidied(schema: dict[str, Any], *, defaults: bool = False) -> dict[str, Any]:
    """Return a schema without titles, without defaults unless `defaults` asks for them, and with null as one more
    type."""
    result: dict[str, Any] = {}
    for name, value in schema.items():
        if name == "$ref":
            value = _called(value)
        if name == "x-model":
            return {"$ref": f"{_REF}{value}"}
        if name == "title" or (name == "default" and (not defaults or value is None)):
            continue
        if name == "properties":
            value = {member: tidied(each, defaults=defaults) for member, each in value.items()}
        elif name in ("items", "additionalProperties") and isinstance(value, dict):
            value = tidied(value, defaults=defaults)
        elif name in ("anyOf", "prefixItems"):
            value = [tidied(each, defaults=defaults) for each in value]
        elif name == "description":
            value = re.sub(r"(?<!\n)\n(?!\n)", " ", value)
        result[name] = value
    return _with_null(result)


def _with_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return `anyOf` of a plain type and null as one schema with two types; descriptions and examples of the type are
    kept."""
    kinds = schema.get("anyOf", [])
    if len(kinds) != 2 or {"type": "null"} not in kinds:
        return schema
    (plain,) = (kind for kind in kinds if kind != {"type": "null"})
    rest = {name: value for name, value in schema.items() if name != "anyOf"}
    if isinstance(plain.get("type"), str) and "enum" not in plain:
        return {**plain, **rest, "type": [plain["type"], "null"]}
    documentation = {name: plain[name] for name in ("description", "examples") if name in plain}
    inner = {name: value for name, value in plain.items() if name not in documentation}
    return {**documentation, **rest, "anyOf": [inner, {"type": "null"}]}


def example(schema: dict[str, Any], named: dict[str, Any]) -> Any:
    """Return an example of a schema, composed of the examples of its members."""
    if "$ref" in schema:
        return example(named[schema["$ref"].removeprefix(_REF)], named)
    inner = schema.get("items")
    if isinstance(inner, dict) and not _is_plain(inner):
        return [example(inner, named)]
    if "properties" in schema:
        return {name: example(each, named) for name, each in schema["properties"].items()}
    if "anyOf" in schema and not _is_plain(schema):
        return example(schema["anyOf"][0], named)
    if "examples" in schema:
        return schema["examples"][0]
    if inner is not None:
        return [example(inner, named)]
    return schema.get("const", schema.get("enum", [None])[0])


def _is_plain(schema: dict[str, Any]) -> bool:
    """Return whether a schema has no members of its own: no reference, no properties, and no alternative that has
    any."""
    return not (
        "$ref" in schema or "properties" in schema or any(not _is_plain(each) for each in schema.get("anyOf", ()))
    )

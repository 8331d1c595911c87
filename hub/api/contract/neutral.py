"""The schemas of answers in neutral names (`slotId` for `browserId`), and the functions that rename the members of an
answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from hub.api.shapes.neutral import FREE, LEASE, attributes, name_of, renamed

_REF: Final = "#/components/schemas/"
Schema = dict[str, Any]
Put = Callable[[Any], Any]


def twin(name: str) -> str:
    """Return the name of a schema's twin, the same schema in neutral names."""
    return f"Neutral{name}"


def beside(schema: Schema) -> Schema:
    """Return the schema of a body with its neutral names added to the old ones. A member with two names is not required
    any more."""
    members, others = schema["properties"], {name for name in schema["properties"] if _said_otherwise(name)}
    if not others:
        return schema
    found = dict(members)
    for name in sorted(others):
        if name == "leaseToken":
            token = {**members[name], "description": "The token of the lease."}
            shown = {"token": token["examples"][0]}
            lease = {"type": "object", "properties": {"token": token}, "examples": [shown]}
            found["lease"] = {**lease, "description": "Its `token` is the same as `leaseToken`."}
        else:
            found.setdefault(name_of(name), {**members[name], "description": f"The same as `{name}`."})
    required = [name for name in schema.get("required", ()) if name not in others and name not in map(name_of, others)]
    rest = {name: value for name, value in schema.items() if name != "required"}
    return {**rest, "properties": found, **({"required": required} if required else {})}


def _said_otherwise(name: str) -> bool:
    return name == "leaseToken" or name_of(name) != name


class Twins:
    """The twins of a document's schemas: the same schemas in neutral names. A schema has no twin if no name changes in
    it or in the schemas that it refers to."""

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        self._schemas = schemas
        answered = {name: schema for name, schema in schemas.items() if not name.endswith("Body")}
        self._differ = {name for name, schema in answered.items() if _is_other(schema)}
        while more := {name for name in answered if name not in self._differ and self._leads_there(schemas[name])}:
            self._differ |= more

    def schemas(self) -> dict[str, Schema]:
        """Return the twins by their names."""
        return {twin(name): self.of(self._schemas[name]) for name in sorted(self._differ)}

    def of(self, schema: Schema) -> Schema:
        """Return a schema in neutral names."""
        if "$ref" in schema:
            name = schema["$ref"].removeprefix(_REF)
            return {**schema, "$ref": _REF + twin(name)} if name in self._differ else schema
        found = dict(schema)
        if "properties" in schema:
            found |= self._members(schema)
        for name in ("items", "additionalProperties"):
            if isinstance(schema.get(name), dict):
                found[name] = self.of(schema[name])
        if "anyOf" in schema:
            found["anyOf"] = [self.of(each) for each in schema["anyOf"]]
        if "examples" in schema and "properties" not in schema:
            put = self.put(schema)
            found["examples"] = [put(each) for each in schema["examples"]] if put else schema["examples"]
        return found

    def _members(self, schema: Schema) -> Schema:
        held = _held(schema)
        properties: Schema = {}
        for name, member in schema["properties"].items():
            if name in held:
                lease = properties.setdefault("lease", _lease())
                lease["properties"][LEASE[name]] = member
                lease["required"] += [LEASE[name]] if name in schema.get("required", ()) else []
            else:
                properties[name_of(name)] = self._member(name, member)
        if "lease" in properties:
            shown = properties["lease"]["properties"]
            properties["lease"]["examples"] = [{name: each["examples"][0] for name, each in shown.items()}]
        required = list(
            dict.fromkeys("lease" if each in held else name_of(each) for each in schema.get("required", ()))
        )
        return {"properties": properties, **({"required": required} if required else {})}

    def _member(self, name: str, member: Schema) -> Schema:
        if name == "item":
            told = "What else the node published of the slot."
            return {**member, "description": told, "examples": [{"labels": {"memory": "80G"}}]}
        return {**member, "type": ["string", "null"]} if name == "lastSeen" else self.of(member)

    def put(self, schema: Schema) -> Put | None:
        """Return a function that renames the members of a document of this schema; None when no member changes its
        name."""
        if "$ref" in schema:
            name = schema["$ref"].removeprefix(_REF)
            return self._put_named(name) if name in self._differ else None
        if "properties" in schema:
            return self._put_members(schema)
        if "anyOf" in schema:
            return self._put_one_of(schema["anyOf"])
        if isinstance(schema.get("items"), dict) and (each := self.put(schema["items"])):
            return lambda found: [each(one) for one in found] if isinstance(found, list) else found
        inner = schema.get("additionalProperties")
        if isinstance(inner, dict) and (value := self.put(inner)):
            return lambda found: {name: value(one) for name, one in found.items()} if isinstance(found, dict) else found
        return None

    def _put_named(self, name: str) -> Put:
        made: list[Put] = []

        def put(found: Any) -> Any:
            if not made:  # made at the first call, because a schema may refer to itself
                made.append(self._put_members(self._schemas[name]))
            return made[0](found)

        return put

    def _put_members(self, schema: Schema) -> Put:
        held = _held(schema)
        ways = {name: (name_of(name), self.put(member)) for name, member in schema["properties"].items()}
        if "item" in ways:
            ways["item"] = (ways["item"][0], attributes)
        for free in FREE & ways.keys():
            ways[free] = (free, lambda found: renamed(found) if isinstance(found, dict) else found)
        if "lastSeen" in ways:  # an empty text becomes null
            ways["lastSeen"] = ("lastSeen", lambda text: text or None)

        def put(found: Any) -> Any:
            if not isinstance(found, dict):
                return found
            shown: dict[str, Any] = {}
            for name, value in found.items():
                if name in held:
                    shown.setdefault("lease", {})[LEASE[name]] = value
                    continue
                called, inner = ways.get(name, (name, None))
                shown[called] = value if inner is None or value is None else inner(value)
            return shown

        return put

    def _put_one_of(self, schemas: list[Schema]) -> Put | None:
        ways = [(self._required(each), each.get("type") == "array", self.put(each)) for each in schemas]
        if not any(put for _, _, put in ways):
            return None

        def put(found: Any) -> Any:
            for required, is_list, inner in ways:
                fits = isinstance(found, list) if is_list else isinstance(found, dict) and required <= found.keys()
                if fits and inner is not None:
                    return inner(found)
            return found

        return put

    def _required(self, schema: Schema) -> frozenset[str]:
        known = self._schemas[schema["$ref"].removeprefix(_REF)] if "$ref" in schema else schema
        return frozenset(known.get("required", ()))

    def _leads_there(self, schema: Any) -> bool:
        if isinstance(schema, dict):
            return any(
                (name == "$ref" and value.removeprefix(_REF) in self._differ) or self._leads_there(value)
                for name, value in schema.items()
                if name != "examples"
            )
        return isinstance(schema, list) and any(self._leads_there(each) for each in schema)


def _is_other(schema: Schema) -> bool:
    names = schema.get("properties", {}).keys()
    return any(name_of(name) != name or name == "lastSeen" for name in names)


def _held(schema: Schema) -> frozenset[str]:
    names = frozenset(schema.get("properties", ()))
    return names & LEASE.keys() if "expiresAtUtc" in names else names & {"leaseToken"}


def _lease() -> Schema:
    return {"type": "object", "description": "The lease.", "properties": {}, "required": []}

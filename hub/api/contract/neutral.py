"""The neutral names in the contract: the types of answers in neutral names, and bodies with the names of both kinds."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, NotRequired, Union, get_args, get_origin

from pydantic import TypeAdapter, WithJsonSchema
from typing_extensions import TypedDict, is_typeddict

from hub.api.contract.schemas import Components, models_within
from hub.api.contract.unknown_members import Misnamed, find, walk
from hub.api.operations import Raw, Row, answers_of, taken
from hub.api.shapes.fields import doc
from hub.api.shapes.neutral import LEASE, name_of
from hub.api.shapes.renaming import members_of, members_of_lease, renaming
from hub.observability.logs import get_logger

Schema = dict[str, Any]
_typed_dict: Any = TypedDict  # mypy knows it with literal names only
PREFIX = "Neutral"  # before the names of types in neutral names
NOTED_MAX = 50  # unknown members that are logged of one operation; callers choose their names
_log = get_logger("hub.api")


def in_neutral_names(shape: Any) -> Any:
    """Return the type of a document in neutral names; the same type when no name changes."""
    if renaming(shape) is None:
        return shape
    if is_typeddict(shape):
        return _twin(shape)
    origin, parts = get_origin(shape), get_args(shape)
    if origin is Annotated:
        return Annotated[in_neutral_names(parts[0]), *parts[1:]]
    if origin is NotRequired:
        return NotRequired[in_neutral_names(parts[0])]
    parts = tuple(in_neutral_names(part) for part in parts)
    return origin[parts] if origin in (list, dict) else Union[parts]  # noqa: UP007 - the parts are a tuple


@cache
def _twin(shape: Any) -> Any:
    members = members_of(shape)
    lease = {name: type for name, type in members.items() if name in members_of_lease(members)}
    found: dict[str, Any] = {}
    for name, type in members.items():
        if name in lease:
            found["lease"] = _lease(lease)
        else:
            found[name_of(name)] = _member(name, type)
    twin = _typed_dict(PREFIX + shape.__name__, found)
    twin.__doc__ = shape.__doc__
    twin.__pydantic_config__ = getattr(shape, "__pydantic_config__", {})
    return twin


def _member(name: str, type: Any) -> Any:
    if name == "item":
        return Annotated[
            dict[str, Any], doc("What else the node published of the slot.", {"labels": {"memory": "80G"}})
        ]
    if name == "lastSeen":
        plain, *metadata = get_args(type)
        return Annotated[plain | None, *metadata]
    return in_neutral_names(type)


def _lease(members: dict[str, Any]) -> Any:
    required = [LEASE[name] for name, type in members.items() if get_origin(type) is not NotRequired]
    schema = {
        "type": "object",
        "description": "The lease.",
        "properties": {LEASE[name]: TypeAdapter(type).json_schema() for name, type in members.items()},
        "required": required,
    }
    member = Annotated[Any, WithJsonSchema(schema)]
    return member if required else NotRequired[member]


def with_both_names(schema: Schema) -> Schema:
    """Return the schema of a body with its neutral names added to the old ones. A member with two names is not required
    any more."""
    members = schema["properties"]
    renamed = {name for name in members if name == "leaseToken" or name_of(name) != name}
    if not renamed:
        return schema
    found = dict(members)
    for name in sorted(renamed):
        if name == "leaseToken":
            token = {**members[name], "description": "The token of the lease."}
            shown = {"token": token["examples"][0]}
            lease = {"type": "object", "properties": {"token": token}, "examples": [shown]}
            found["lease"] = {**lease, "description": "Its `token` is the same as `leaseToken`."}
        else:
            found.setdefault(name_of(name), {**members[name], "description": f"The same as `{name}`."})
    two_names = renamed | {name_of(name) for name in renamed}
    required = [name for name in schema.get("required", ()) if name not in two_names]
    rest = {name: value for name, value in schema.items() if name != "required"}
    return {**rest, "properties": found, **({"required": required} if required else {})}


class NeutralNames:
    """The names of the members of one operation, old and neutral, which stand in the scope of its calls. An operation
    outside the contract has none."""

    def __init__(self, row: Row | None) -> None:
        listed = row is not None and row.route.include_in_schema
        shapes = answers_of(row.route) if row is not None and listed else {}
        self.answers = {
            status: renaming(shape)
            for status, shape in shapes.items()
            if status < 300 and not (shape is None or isinstance(shape, Raw))
        }
        body = taken(row.route).body if row is not None and listed else None
        self._body = None if isinstance(body, Raw) else body
        self._name = str(row.route.operation_id) if row is not None else ""
        self._noted: set[str] = set()
        self._plain: frozenset[str] | None = None

    def rename(self, status: int, document: Any) -> Any:
        """Return the document of an answer with this status in neutral names."""
        rename = self.answers[status]
        return document if rename is None else rename(document)

    def unknown(self, document: Any) -> Misnamed | None:
        """Return the first member of a body that the operation does not have; None when there is none."""
        if self._body is None:
            return None
        schema, schemas = _body_schemas(self._body)
        return find(schema, document, schemas)

    def note_unknown(self, document: Mapping[str, Any]) -> None:
        """Log the members of a body that the operation does not have, each once while the hub runs. Only the first
        entry of a list is looked at, so that a long list costs nothing."""
        if self._plain is None:
            self._plain = frozenset() if self._body is None else _plain_members(self._body)
        if document.keys() <= self._plain or self._body is None or len(self._noted) >= NOTED_MAX:
            return
        schema, schemas = _body_schemas(self._body)
        for fault in walk(schema, document, schemas, most=1):
            known = fault.name in self._noted or fault.name in _spelled(self._body)
            if not known and len(self._noted) < NOTED_MAX:
                self._noted.add(fault.name)
                _log.info("unknown member", operation=self._name, member=fault.name, hint=fault.hint)


@cache
def neutral_names(row: Row | None) -> NeutralNames:
    """Return the neutral names of an operation; they are made at the first call that asks for them."""
    return NeutralNames(row)


def _plain_members(body: Any) -> frozenset[str]:
    """Return the names, old and neutral, of the members of a body in which there are no further members to look at."""
    schema, schemas = _body_schemas(body)
    members = schemas[schema["$ref"].rpartition("/")[2]].get("properties", {}) if "$ref" in schema else {}
    deep = {"$ref", "items", "properties", "additionalProperties"}
    return _spelled(body) | {name for name, said in members.items() if not deep & said.keys()}


def _spelled(body: Any) -> frozenset[str]:
    """Return the further spellings of members that a body takes."""
    return frozenset(name for names in getattr(body, "spellings", {}).values() for name in names)


@cache
def _body_schemas(body: Any) -> tuple[Schema, dict[str, Schema]]:
    components = Components([body, *models_within(body)])
    return components.of(body), {name: with_both_names(schema) for name, schema in components.schemas.items()}

"""The table of operations: all that the hub knows of each route, and how it finds the row of a request."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeVar

from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.convertors import StringConvertor
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from hub.api.paths import PREFIX, read_id, without_prefix
from hub.api.shapes.answer import answered
from hub.api.shapes.parameters import Parameter
from hub.errors import (
    Capped,
    DeadlineMissed,
    HubError,
    LabelQueueFull,
    NoCapacity,
    RunQueueFull,
    Settling,
    WaitedInVain,
)
from hub.store.replicas import NotReplicated
from hub.tokens.secrets import ADMIN

TOKEN: Final = "bearer"  # a bearer token, beside the roles of `hub.tokens.secrets`
ANYBODY: Final = "anybody"
CALLER: Final = (TOKEN, ADMIN)  # who may call the jobs API
NO_SLOT: Final = (
    NoCapacity, Capped, WaitedInVain, DeadlineMissed, LabelQueueFull, RunQueueFull, Settling, NotReplicated,
)  # fmt: skip
EXTRA: Final = "operation"
SAFE: Final = frozenset(("GET", "HEAD", "OPTIONS", "TRACE"))
Role = Literal["viewer", "operator", "admin"]
Bound = Literal["control", "leases", "schema", "schedule", "submit", "reports", "report", "result"]


F = TypeVar("F", bound=Callable[..., Any])
Reader = Callable[[Request], Any]  # of a parameter of an endpoint
_TAKES: Final = "takes"


class Raw(NamedTuple):
    """A body or an answer that is not JSON of the hub: its media type, and an example."""

    media_type: str
    example: str = ""


class Subject(NamedTuple):
    """The kind of thing that a call is about (a room, a label, a node), by which the call's realm is found; and the
    path parameter that has its id."""

    kind: str
    part: str = ""
    in_body: bool = False  # the body has the id, or further ids


class Takes(NamedTuple):
    """What a parameter of an endpoint takes from the request, for the contract: a body, which may be left out if it is
    `optional`; the members of a query; single parameters; and the errors that it may be refused with."""

    parameters: tuple[Parameter, ...] = ()
    body: Any = None
    optional: bool = False
    query: type[BaseModel] | None = None
    refusals: tuple[type[HubError], ...] = ()


def takes(*parameters: Parameter, **facts: Any) -> Callable[[F], F]:
    """Return a decorator of a function that reads a parameter of endpoints: it notes what the function takes from the
    request. `facts` are fields of `Takes`."""

    def note(read: F) -> F:
        setattr(read, _TAKES, Takes(parameters, **facts))
        return read

    return note


EVERYTHING: Final = Subject("everything")  # any realm of the hub may answer
_PARTS: Final = {
    "job_name": "job", "node_id": "node", "label": "label", "slot": "slot", "ticket": "ticket", "bundle": "bundle",
    "task_id": "id", "worker_id": "id", "provider_id": "id", "room_id": "room",
}  # fmt: skip


@dataclass(frozen=True)
class Operation:
    """The facts of a route. The signature of its endpoint, or `raw`, has the type of the answer with `status`; `also`
    has the types of answers with another status."""

    who: tuple[str, ...] = ()
    status: int = 200
    also: Mapping[int, Any] = field(default_factory=dict)
    raw: Raw | None = None
    parameters: tuple[Parameter, ...] = ()
    headers: tuple[str, ...] = ()
    refusals: tuple[type[HubError], ...] = ()
    scopes: tuple[str, ...] = ()  # a user's token must have one of these scopes
    joins: bool = False  # callers show a token for joining
    borrows: bool = False  # users whose tokens may borrow call too, beside `who`
    superuser: bool = False  # only superusers may call
    anonymous: bool = False  # strangers may read where HUB_ANONYMOUS_READS is on
    denied: Callable[[Request, HubError], Awaitable[None]] | None = None  # told of refusals before the endpoint
    room_first: bool = False  # the name of the room is checked before the caller
    below_v2: str = ""  # the path below `/v2`, where it is another one than the path itself
    about: Subject | None = None  # with None the path parameters decide
    bound: Bound = "control"  # the size of the body; `hub.api.handling.bounds` has it in bytes
    endless: bool = False  # the answer is a stream: it has no end and no time limit
    shared: bool = False  # pages with the same credential and role may be given the same answer
    least: Role | None = None  # the role of a login; None: viewer to read, operator to change
    entry: bool = False  # logs in or out, which every login may do without a reason
    routine: bool = False  # pages repeat it by themselves: it needs no reason, and the audit log does not list it
    page: bool = False  # only pages of the console call it
    linked: bool = False  # links of foreign pages may lead here


def operation(name: str, who: tuple[str, ...], *parameters: Parameter, **facts: Any) -> dict[str, Any]:
    """Return the arguments with which a route of the contract is registered; `facts` are fields of `Operation`.

    The signature of the endpoint says what it takes (`hub.api.inputs`), and has the type of the answer with `status`:
    `Answer[Shape]`, or `Answer[None]` for an answer without a body; `raw` has it for an answer that is not JSON. `also`
    has the types of answers with another status, and `headers` the names of the headers of good answers.
    """
    found = Operation(who, parameters=parameters, **facts)
    return {
        "operation_id": name,
        "status_code": found.status,
        "response_class": Response,
        "response_model": None,
        "openapi_extra": {EXTRA: found},
    }


def unlisted(**facts: Any) -> dict[str, Any]:
    """Return the arguments with which a route outside the contract is registered; `facts` are fields of `Operation`."""
    return {"openapi_extra": {EXTRA: Operation(**facts)}, "include_in_schema": False}


def facts_of(route: APIRoute) -> Operation:
    """Return the `Operation` that a route was registered with; an empty one when there is none."""
    found: Operation | None = (route.openapi_extra or {}).get(EXTRA)
    return found or Operation()


def taken(route: APIRoute) -> Takes:
    """Return what the parameters of an endpoint take from the request, in the order of its signature."""
    parts = [getattr(each.call, _TAKES, Takes()) for each in route.dependant.dependencies]
    body = next((part for part in parts if part.body is not None), Takes())
    query = next((part.query for part in parts if part.query is not None), None)
    parameters = tuple(parameter for part in parts for parameter in part.parameters)
    refusals = tuple(refusal for part in parts for refusal in part.refusals)
    return Takes(parameters, body.body, body.optional, query, refusals)


def answers_of(route: APIRoute) -> dict[int, Any]:
    """Return the shape of each good answer by its status; the ordinary answer comes first."""
    facts = facts_of(route)
    return {facts.status: facts.raw or answered(route.endpoint), **facts.also}


class Row:
    """A row of the table: the method, the path, the endpoint and the facts of one operation."""

    def __init__(self, route: APIRoute) -> None:
        self.method = next(iter(route.methods or ()))
        self.route, self.path = route, route.path
        self.endpoint: Callable[..., Awaitable[Response]] = route.endpoint
        self.facts = facts_of(route)
        self.roles = tuple(role for role in self.facts.who if role != TOKEN)
        self._reads = _reads(route)
        self.is_plain = self._reads is not None  # FastAPI must call any other endpoint

    async def read(self, request: Request, overrides: Mapping[Any, Any] | None = None) -> list[Any]:
        """Return the parameters of the endpoint, read in the order of its signature. `overrides` are the
        `dependency_overrides` of FastAPI: functions that are called instead of others."""
        given, reads = [], self._reads or ()
        for read, waits in reads if not overrides else [_overridden(*each, overrides) for each in reads]:
            found = read(request)
            given.append(await found if waits else found)
        return given

    @property
    def about(self) -> Subject | None:
        """Return the kind of thing that a call is about, and the path parameter that has its id; None when the route
        does not say it."""
        if self.facts.about or not self.route.include_in_schema:
            return self.facts.about
        parts = self.route.param_convertors
        return next((Subject(kind, part) for part, kind in _PARTS.items() if part in parts), None)

    @property
    def least(self) -> Role:
        """Return the lowest role of a login that may call this operation."""
        return self.facts.least or ("viewer" if self.method in SAFE else "operator")


def _reads(route: APIRoute) -> list[tuple[Reader, bool]] | None:
    """Return how each parameter of an endpoint is read from a request, in the order of the signature, and whether the
    result must be awaited. None for an endpoint with a parameter that only FastAPI can read."""
    found = route.dependant
    reads: dict[str, tuple[Reader, bool]] = {}
    if found.request_param_name:
        reads[found.request_param_name] = (lambda request: request, False)
    for part in found.path_params:
        if part.field_info.annotation is str or not isinstance(route.param_convertors[part.name], StringConvertor):
            reads[part.name] = (_part(part.name), False)
    for each in found.dependencies:
        if each.call is not None and list(inspect.signature(each.call).parameters) == [each.request_param_name]:
            reads[str(each.name)] = (each.call, inspect.iscoroutinefunction(each.call))
    names = inspect.signature(route.endpoint).parameters
    return [reads[name] for name in names] if reads.keys() == names.keys() else None


def _overridden(read: Reader, waits: bool, overrides: Mapping[Any, Any]) -> tuple[Reader, bool]:
    """Return the function that is called instead of a reader, and whether its result must be awaited."""
    if (other := overrides.get(read)) is None:
        return read, waits
    reads = inspect.signature(other).parameters
    return (other if reads else lambda _: other()), inspect.iscoroutinefunction(other)


def _part(name: str) -> Reader:
    def read(request: Request) -> Any:
        return request.path_params[name]

    return read


class Found(NamedTuple):
    """The row of a request, and the parameters in its path. `is_taken` is False when the row is of another method,
    because the path does not take the method of the request."""

    row: Row | None
    parts: dict[str, Any]
    is_taken: bool


class Asked(NamedTuple):
    """A request as the table has it: the row, the path, and whether its prefix asks for neutral names."""

    found: Found
    path: str
    neutral: bool


class _Named(NamedTuple):
    """A row whose path has parameters. `only` is the name of the parameter when there is just one and it ends the path;
    else empty."""

    row: Row
    only: str

    def parts(self, path: str, start: str) -> dict[str, Any] | None:
        if self.only:
            rest = path[len(start) :]
            return {self.only: read_id(rest)} if rest and "/" not in rest else None
        found = self.row.route.path_regex.match(path)
        if found is None:
            return None
        convertors = self.row.route.param_convertors
        return {name: convertors[name].convert(part) for name, part in found.groupdict().items()}


class Table:
    """The rows of the table of operations that a hub serves. A row is found by its whole path, or by the part of the
    path before its first parameter."""

    def __init__(self, routes: Iterable[BaseRoute]) -> None:
        self._plain: dict[str, dict[str, Found]] = {}
        self._named: dict[str, dict[str, list[_Named]]] = {}
        self._lengths: dict[str, list[int]] = {}
        self._below_v2: dict[str, str] = {}
        self.rows = [Row(route) for route in routes if isinstance(route, APIRoute)]
        for row in self.rows:
            self._add(row)

    def _add(self, row: Row) -> None:
        start, brace, rest = row.path.partition("{")
        if row.facts.below_v2:
            self._below_v2[row.facts.below_v2.partition("{")[0]] = start
        if not brace:
            self._plain.setdefault(row.path, {})[row.method] = Found(row, {}, True)
            return
        starts = self._named.setdefault(row.method, {})
        starts.setdefault(start, []).append(_Named(row, rest[:-1] if rest[:-1].isidentifier() else ""))
        self._lengths[row.method] = sorted({len(each) for each in starts}, reverse=True)

    def look_up(self, method: str, path: str) -> Asked:
        """Return the row of a request and its path without a prefix. Below `/v2` the path may be shorter: it needs no
        word of sessions, and no prefix of the jobs API."""
        path, neutral = without_prefix(path)
        found = self.find(method, path)
        if neutral and found.row is None:
            start, slash, last = path.rpartition("/")
            names = (self._below_v2.get(path), self._below_v2.get(start + slash, "") + last, PREFIX + path)
            for other in filter(None, names):
                if (there := self.find(method, other)).row is not None:
                    return Asked(there, other, True)
        return Asked(found, path, neutral)

    def find(self, method: str, path: str) -> Found:
        """Return the row of a request and the parameters in its path; the row is None for an unknown path."""
        plain = self._plain.get(path) or self._plain.get(path.removesuffix("\n"), {})  # Starlette allows \n at the end
        if (found := plain.get(method)) is not None:
            return found
        if (fitting := self._fitting(method, path)) is not None:
            return fitting
        for found in plain.values():
            return found._replace(is_taken=False)
        others = (self._fitting(other, path) for other in self._named)
        return next((found._replace(is_taken=False) for found in others if found is not None), _NOWHERE)

    def _fitting(self, method: str, path: str) -> Found | None:
        """Return the first row of a method whose path has parameters and fits; rows with the longest fixed beginning
        come first."""
        for length in self._lengths.get(method, ()):
            start = path[:length]
            for named in self._named[method].get(start, ()):
                if (parts := named.parts(path, start)) is not None:
                    return Found(named.row, parts, True)
        return None


_NOWHERE: Final = Found(None, {}, False)


def row_of(routes: Iterable[BaseRoute], endpoint: Any) -> Row:
    """Return the row of an endpoint among these routes."""
    return next(Row(route) for route in routes if isinstance(route, APIRoute) and route.endpoint is endpoint)

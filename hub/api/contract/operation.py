"""What a route says of itself for the contract: its name, who may call it, what it takes, answers and refuses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.responses import Response

from hub.api.auth import ADMIN
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

TOKEN: Final = "bearer"  # a bearer token, beside the roles of `hub.api.auth`
ANYBODY: Final = "anybody"
CALLER: Final = (TOKEN, ADMIN)  # of the jobs API
NO_SLOT: Final = (
    NoCapacity, Capped, WaitedInVain, DeadlineMissed, LabelQueueFull, RunQueueFull, Settling, NotReplicated,
)  # fmt: skip
EXTRA: Final = "operation"


class Raw(NamedTuple):
    """A body, or an answer, that is no JSON of the hub."""

    media_type: str
    example: str = ""


@dataclass(frozen=True)
class Operation:
    """An operation. `answers` has a type, `Raw`, or None for an empty one, by status; the first is the ordinary one."""

    who: tuple[str, ...]
    status: int
    also: Mapping[int, Any]
    raw: Raw | None = None
    body: Any = None
    optional: bool = False
    parameters: tuple[Parameter, ...] = ()
    query: type[BaseModel] | None = None
    headers: tuple[str, ...] = ()
    refusals: tuple[type[HubError], ...] = ()
    answers: Mapping[int, Any] = field(default_factory=dict)


def operation(
    name: str,
    who: tuple[str, ...],
    *parameters: Parameter,
    status: int = 200,
    also: Mapping[int, Any] = MappingProxyType({}),
    raw: Raw | None = None,
    body: Any = None,
    optional: bool = False,
    query: type[BaseModel] | None = None,
    headers: tuple[str, ...] = (),
    refusals: tuple[type[HubError], ...] = (),
) -> dict[str, Any]:
    """Return what a route is registered with.

    The signature of its endpoint says what is answered with `status`: `Answer[Shape]`, `Answer[None]` for an answer
    without a body; `raw` says it of what is no JSON. `also` has the shapes of answers with another status, and
    `headers` those of good answers.
    """
    found = Operation(who, status, also, raw, body, optional, parameters, query, headers, refusals)
    return {
        "operation_id": name,
        "status_code": status,
        "response_class": Response,
        "response_model": None,
        "openapi_extra": {EXTRA: found},
    }


def said_of(route: APIRoute) -> Operation:
    """Return what a route says of itself, with its answers by status."""
    found: Operation = (route.openapi_extra or {})[EXTRA]
    return replace(found, answers={found.status: found.raw or answered(route.endpoint), **found.also})

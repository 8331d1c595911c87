"""What a route says of itself for the contract: its name, who may call it, what it takes, answers and refuses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from pydantic import BaseModel
from starlette.responses import Response

from hub.api.auth import ADMIN
from hub.api.contract.parameters import Parameter
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
    answers: Mapping[int, Any]
    body: Any = None
    optional: bool = False
    parameters: tuple[Parameter, ...] = ()
    query: type[BaseModel] | None = None
    headers: tuple[str, ...] = ()
    refusals: tuple[type[HubError], ...] = ()


def operation(
    name: str,
    who: tuple[str, ...],
    answers: Any,
    *parameters: Parameter,
    body: Any = None,
    optional: bool = False,
    query: type[BaseModel] | None = None,
    headers: tuple[str, ...] = (),
    refusals: tuple[type[HubError], ...] = (),
) -> dict[str, Any]:
    """What a route is registered with. `answers` alone is that of 200; `headers` are those of good answers."""
    listed = answers if isinstance(answers, dict) else {200: answers}
    found = Operation(who, listed, body, optional, parameters, query, headers, refusals)
    return {
        "operation_id": name,
        "status_code": next(iter(listed)),
        "response_class": Response,
        "openapi_extra": {EXTRA: found},
    }

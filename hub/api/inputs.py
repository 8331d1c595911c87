"""What the endpoints take: each name here is the type of a parameter, and says how it is read from a request.

`async def renew(hub: Hub, body: Sent[RenewBody])` takes the hub, then the body. They are read in this order, so that
the order of the parameters is the order of their refusals. `hub.api.operations.Row` reads them, and the contract says
of each what it takes from the request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Generic, NamedTuple, TypeVar

from fastapi import Depends, Request

from hub import core
from hub.api.callers import caller
from hub.api.callers.admission import ROW
from hub.api.callers.credentials import origin
from hub.api.handling import context
from hub.api.operations import takes
from hub.api.shapes import parameters as p
from hub.api.shapes import reading
from hub.api.shapes.body import Body
from hub.errors import Unauthorized

B = TypeVar("B", bound=Body)


def serving_of(request: Request) -> context.Serving:
    """Return the `Serving` of a request that was let in; raises `Unauthorized` for a request that was not."""
    if ROW not in request.scope:
        raise Unauthorized()
    return context.serving(request)


def hub_of(request: Request) -> core.Hub:
    """Return the hub for a request that was let in; raises as `serving_of` does."""
    return serving_of(request).hub


def caller_of(request: Request) -> caller.Caller:
    """Return the caller of a request, as `admit` has found it; raises as `serving_of` does."""
    if ROW not in request.scope:
        raise Unauthorized()
    found: caller.Caller = request.scope[context.CALLER]
    return found


Serving = Annotated[context.Serving, Depends(serving_of)]
Hub = Annotated[core.Hub, Depends(hub_of)]
Caller = Annotated[caller.Caller, Depends(caller_of)]


class CallAudit:
    """The audit log, in which the entries of one call name its caller."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._log = hub_of(request).audit

    async def write(self, category: str, action: str, **facts: Any) -> None:
        """Write an entry with the caller's credential and address."""
        await self._log.write(category, action, **{**await origin(self._request), **facts})

    def name(self, said: str | None) -> str:
        """Return the name of the person that acts: the one that the call says, else the caller's address."""
        return (said or context.remote_ip(self._request) or "unknown")[:100]


def audit_of(request: Request) -> CallAudit:
    """Return the audit log for the entries of a call."""
    return CallAudit(request)


Audit = Annotated[CallAudit, Depends(audit_of)]


class UnreadBody(NamedTuple, Generic[B]):
    """A JSON object that was sent, which the endpoint reads as `model` when it has done its own checks."""

    document: dict[str, Any]
    model: type[B]

    def read(self) -> B:
        """Return the body; raises `MissingMember` and `InvalidValue`."""
        return self.model.read(self.document)


@cache
def body_of(model: type[Body]) -> Callable[..., Any]:
    """Return the function that reads the body of a request as this model."""

    @takes(body=model, optional=model.optional)
    async def read(request: Request) -> Any:
        return model.read(await reading.read_body(request, optional=model.optional))

    return read


@cache
def unread_body_of(model: type[Body]) -> Callable[..., Any]:
    """Return the function that takes the body of a request as a JSON object, for an endpoint that reads it itself."""

    @takes(body=model, optional=model.optional)
    async def read(request: Request) -> Any:
        return UnreadBody(await reading.read_body(request, optional=model.optional), model)

    return read


if TYPE_CHECKING:
    Sent = Annotated[B, "read from the body"]
    Unread = Annotated[UnreadBody[B], "read from the body"]
else:

    class Sent:
        """`Sent[RenewBody]`: the body of the request as this model."""

        def __class_getitem__(cls, model: type[Body]) -> Any:
            return Annotated[model, Depends(body_of(model))]

    class Unread:
        """`Unread[BorrowBody]`: the body of the request, which the endpoint reads as this model itself."""

        def __class_getitem__(cls, model: type[Body]) -> Any:
            return Annotated[UnreadBody, Depends(unread_body_of(model))]


@takes(p.OFFSET, p.LIMIT)
def page_of(request: Request) -> tuple[int, int]:
    """Return (offset, limit) of the part of a list that the query asks for; raises `InvalidValue`."""
    return reading.page(request)


def query_of(request: Request) -> Mapping[str, str]:
    """Return the parameters of the query."""
    return request.query_params


@takes(p.SEARCH)
def search_of(request: Request) -> str:
    """Return the text that the entries of a list must contain; raises `InvalidValue`."""
    return reading.search(request)


@takes(p.PREFER)
def wait_of(request: Request) -> int:
    """Return for how many seconds the call wants to wait, `Prefer: wait=N`; 0 without this preference."""
    return reading.wait_preference(request) or 0


Page = Annotated[tuple[int, int], Depends(page_of)]
Query = Annotated[Mapping[str, str], Depends(query_of)]
Search = Annotated[str, Depends(search_of)]
Wait = Annotated[int, Depends(wait_of)]

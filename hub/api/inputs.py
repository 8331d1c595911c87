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
from hub.errors import Forbidden, Unauthorized

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


def hub_of_all_rooms(why: str) -> Callable[[Request], core.Hub]:
    """Return the function that reads the hub, and raises `Forbidden` for a token that is bound to rooms."""

    def read(request: Request) -> core.Hub:
        if caller_of(request).rooms:
            raise Forbidden(why)
        return hub_of(request)

    return read


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


def query_of(request: Request) -> Mapping[str, str]:
    """Return the parameters of the query."""
    return request.query_params


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


class ByModel:
    """A kind of parameter that is completed by a model, such as `Sent[RenewBody]`; `reader` returns the function that
    reads a parameter as a model."""

    def __init__(self, reader: Callable[[Any], Callable[[Request], Any]]) -> None:
        self._reader = reader

    def __getitem__(self, model: Any) -> Any:
        return Annotated[model, Depends(self._reader(model))]


def wait_of(request: Request) -> int:
    """Return for how many seconds the call wants to wait, `Prefer: wait=N`; 0 without this preference."""
    return reading.wait_preference(request) or 0


async def document_of(request: Request) -> dict[str, Any]:
    """Return the JSON object in the body of a call that is not part of the contract; raises `InvalidJson`."""
    return await reading.read_body(request)


async def document_or_none(request: Request) -> dict[str, Any]:
    """Return what `document_of` does, and an empty object for an empty body."""
    return await reading.read_body(request, optional=True)


if TYPE_CHECKING:
    Sent = Annotated[B, "the body as this model"]
    Unread = Annotated[UnreadBody[B], "the body, which the endpoint itself reads as this model"]
else:
    Sent, Unread = ByModel(body_of), ByModel(unread_body_of)

Serving = Annotated[context.Serving, Depends(serving_of)]
Hub = Annotated[core.Hub, Depends(hub_of)]
Caller = Annotated[caller.Caller, Depends(caller_of)]
Audit = Annotated[CallAudit, Depends(audit_of)]
Document = Annotated[dict[str, Any], Depends(document_of)]
DocumentOrNone = Annotated[dict[str, Any], Depends(document_or_none)]
Query = Annotated[Mapping[str, str], Depends(query_of)]
Page = Annotated[tuple[int, int], Depends(takes(p.OFFSET, p.LIMIT)(reading.page))]
Search = Annotated[str, Depends(takes(p.SEARCH)(reading.search))]
Wait = Annotated[int, Depends(takes(p.PREFER)(wait_of))]

"""Letting a call in: the row of its operation says who may call, and nothing else does."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request

from hub.api.callers.nodes import Speaker, joiner, speaker
from hub.api.callers.users import Caller, caller, reader, superuser
from hub.api.handling.context import Serving, serving
from hub.api.operations import ANYBODY, TOKEN, Operation, Row
from hub.core import Hub
from hub.errors import Unauthorized
from hub.jobs.names import check_room

_ROW: Final = "hub.row"  # in the scope of a request that was let in
_CALLER: Final = "hub.caller"


async def admit(request: Request, row: Row) -> None:
    """Keep with a request who calls.

    Raises `Unauthorized` and `Forbidden` for a caller that the row does not name, and `StoreUnavailable` when Redis has
    to be asked and does not answer.
    """
    try:
        request.scope[_CALLER] = await _caller(request, row.facts)
    except Unauthorized:
        if row.facts.denied is not None:
            await row.facts.denied(request)
        raise
    request.scope[_ROW] = row


async def admit_again(request: Request) -> None:
    """Raise as `admit` does when the caller may not call any more: its token may have been revoked meanwhile."""
    await _caller(request, request.scope[_ROW].facts)


async def _caller(request: Request, facts: Operation) -> Caller | Speaker | None:
    if facts.room_first:
        check_room(request.path_params["room_id"])
    if not facts.who or ANYBODY in facts.who:
        return None
    if facts.anonymous:
        return await reader(request)
    if facts.superuser:
        return await superuser(request, *facts.scopes)
    if facts.scopes:
        return await caller(request, *facts.scopes)
    if facts.joins:
        return await joiner(request)
    if TOKEN in facts.who:
        return await speaker(request, *(role for role in facts.who if role != TOKEN))
    serving(request).secrets.check(request.headers, *facts.who)
    return None


def serving_of(request: Request) -> Serving:
    """Return what a request is served with that was let in; raises `Unauthorized` for one past the pipeline."""
    if _ROW not in request.scope:
        raise Unauthorized()
    return serving(request)


def hub_of(request: Request) -> Hub:
    """Return the hub, for a request that was let in; raises as `serving_of`."""
    return serving_of(request).hub


def caller_of(request: Request) -> Caller:
    """Return the user that calls."""
    found: Caller = _let_in(request)
    return found


def reader_of(request: Request) -> Caller | None:
    """Return the user that reads; None for a stranger, where strangers may read."""
    found: Caller | None = _let_in(request)
    return found


def speaker_of(request: Request) -> Speaker:
    """Return the node that calls, or the caller that speaks for all of them."""
    found: Speaker = _let_in(request)
    return found


def _let_in(request: Request) -> Any:
    if _CALLER not in request.scope:
        raise Unauthorized()
    return request.scope[_CALLER]

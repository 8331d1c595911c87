"""Admission of calls: the row of an operation in the table says who may call it, and no other place does."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final

from starlette.requests import Request

from hub.api.callers.nodes import Speaker, joiner, speaker
from hub.api.callers.users import Caller, caller, reader, superuser
from hub.api.handling.context import CALLER, Serving, serving
from hub.api.operations import ANYBODY, TOKEN, Row
from hub.core import Hub
from hub.errors import Unauthorized
from hub.jobs.names import check_room

_ROW: Final = "hub.row"  # in the scope of a request that was let in


async def admit(request: Request, row: Row) -> None:
    """Check that the caller may call this operation, and keep the caller in the scope of the request.

    Raises `Unauthorized` and `Forbidden` for a caller that the row does not allow, and `StoreUnavailable` when Redis
    has to be asked and does not answer.
    """
    try:
        asking = _ask(request, row)
        request.scope[CALLER] = None if asking is None else await asking
    except Unauthorized:
        if row.facts.denied is not None:
            await row.facts.denied(request)
        raise
    request.scope[_ROW] = row


async def admit_again(request: Request) -> None:
    """Check again that the caller of a long request may call, and raise as `admit` does: its token may have been
    revoked meanwhile."""
    if (asking := _ask(request, request.scope[_ROW])) is not None:
        await asking


def _ask(request: Request, row: Row) -> Awaitable[Caller | Speaker | None] | None:
    """Check the caller of a request: return an awaitable that gives the caller, or None when the check is complete and
    no caller is kept. Raises `Unauthorized` for a secret that the row does not allow."""
    facts = row.facts
    if facts.room_first:
        check_room(request.path_params["room_id"])
    if not facts.who or ANYBODY in facts.who:
        return None
    if facts.anonymous:
        return reader(request)
    if facts.superuser:
        return superuser(request, *facts.scopes)
    if facts.scopes:
        return caller(request, *facts.scopes)
    if facts.joins:
        return joiner(request)
    if TOKEN in facts.who:
        return speaker(request, *row.roles)
    serving(request).secrets.check(request.headers, *facts.who)
    return None


def serving_of(request: Request) -> Serving:
    """Return the `Serving` of a request that was let in; raises `Unauthorized` for a request that has not passed
    `admit`."""
    if _ROW not in request.scope:
        raise Unauthorized()
    return serving(request)


def hub_of(request: Request) -> Hub:
    """Return the hub for a request that was let in; raises as `serving_of` does."""
    return serving_of(request).hub


def caller_of(request: Request) -> Caller:
    """Return the user that calls, as `admit` has found it."""
    found: Caller = _let_in(request)
    return found


def reader_of(request: Request) -> Caller | None:
    """Return the user that reads, as `admit` has found it; None for a stranger, where strangers may read."""
    found: Caller | None = _let_in(request)
    return found


def speaker_of(request: Request) -> Speaker:
    """Return the node that calls, or the caller that may speak for every node, as `admit` has found it."""
    found: Speaker = _let_in(request)
    return found


def _let_in(request: Request) -> Any:
    if CALLER not in request.scope:
        raise Unauthorized()
    return request.scope[CALLER]

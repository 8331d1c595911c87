"""Admission of calls: the row of an operation in the table says who may call it, and no other place does."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from starlette.requests import Request

from hub.api.callers import finding
from hub.api.callers.caller import READ, SECRET_HOLDER, STRANGER, Caller
from hub.api.handling.context import CALLER, serving
from hub.api.operations import ANYBODY, TOKEN, Row
from hub.errors import Unauthorized
from hub.jobs.names import check_room

ROW: Final = "hub.row"  # in the scope of a request that was let in


async def admit(request: Request, row: Row) -> None:
    """Check that the caller may call this operation, and keep the caller in the scope of the request.

    Raises `Unauthorized` and `Forbidden` for a caller that the row does not allow, and `StoreUnavailable` when Redis
    has to be asked and does not answer.
    """
    found = _find(request, row)
    request.scope[CALLER] = found if isinstance(found, Caller) else await found
    request.scope[ROW] = row


async def check_reader(request: Request, *roles: str) -> None:
    """Check that the caller has the secret of one of these roles or the token of a user that may borrow; raises
    `Unauthorized` and `Forbidden`."""
    found = finding.lender(serving(request), finding.Shown.of(request.headers), roles)
    if not isinstance(found, Caller):
        await found


async def admit_again(request: Request) -> None:
    """Check again that the caller of a long request may call, and raise as `admit` does: its token may have been
    revoked meanwhile."""
    found = _find(request, request.scope[ROW])
    if not isinstance(found, Caller):
        await found


def _find(request: Request, row: Row) -> Caller | Awaitable[Caller]:
    """Return the caller of a request, or an awaitable of it where a token may have to be looked up. Raises
    `Unauthorized` for a secret that the row does not allow."""
    facts = row.facts
    if facts.room_first:
        check_room(request.path_params["room_id"])
    if not facts.who or ANYBODY in facts.who:
        return STRANGER
    found = serving(request)
    if facts.anonymous or facts.scopes or facts.superuser:
        return find_user(request, *(facts.scopes or (READ,)), strangers=facts.anonymous, superuser=facts.superuser)
    if facts.joins:
        return finding.joiner(found, finding.Shown.of(request.headers).token)
    if facts.borrows:
        return finding.lender(found, finding.Shown.of(request.headers), facts.who)
    if TOKEN in facts.who:
        return finding.node(found, request.headers, *row.roles)
    found.secrets.check(request.headers, *facts.who)
    return SECRET_HOLDER


async def find_user(request: Request, *scopes: str, strangers: bool = False, superuser: bool = False) -> Caller:
    """Return the user that calls.

    Raises `Forbidden` for a token with none of these scopes, and where `superuser` asks for a superuser in all rooms.
    Raises `Unauthorized` for a stranger. With `strangers` and HUB_ANONYMOUS_READS a stranger is let in, unless it calls
    the hub by a foreign host name, and no scope is asked for.
    """
    found = serving(request)
    caller = await finding.known_user(found, finding.Shown.of(request.headers))
    if strangers and found.hub.settings.anonymous_reads:
        if caller is STRANGER and not found.gate.may_read_unnamed(request.headers.get("host")):
            raise Unauthorized()
        return caller
    caller.check_known()
    caller.check_scope(*scopes)
    if superuser:
        caller.check_superuser()
    return caller

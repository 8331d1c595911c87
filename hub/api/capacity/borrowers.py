"""Who borrows: the holder of a lease, made of the caller and of the names in its body, and how answers show it."""

from __future__ import annotations

from urllib.parse import unquote

from fastapi import Request

from hub.api.callers.caller import Caller
from hub.api.handling.context import remote_ip
from hub.api.shapes.lease_bodies import ReturnBody, TermsBody, read_reason
from hub.api.shapes.leases import HolderShape
from hub.capacity.models import LeaseHolder, Ticket
from hub.capacity.refusals import not_holder
from hub.wire import time_at


def holder_of(request: Request, caller: Caller, said: TermsBody) -> LeaseHolder:
    """Return who will hold the lease of a borrow: the user of the token, and the name that the caller gives itself, its
    run or, for want of both, its address."""
    client = remote_ip(request) or ""
    name = said.name or said.run_name or client or "unknown"
    user_id = caller.by
    if not user_id or user_id == "node":
        return LeaseHolder(None, None, name, client, run_name=said.run_name)
    return LeaseHolder(caller.name, caller.team or None, name, client, user_id, said.run_name)


def holder_shape(holder: LeaseHolder | None) -> HolderShape | None:
    """Return a holder as answers show it; None for a lease whose holder is not known."""
    if holder is None:
        return None
    return HolderShape(user=holder.user, team=holder.team, name=holder.name, client=holder.client)


def ends_as(request: Request, caller: Caller, said: ReturnBody) -> tuple[str, str]:
    """Return who ends a lease, as `lua/holders.lua` wants it, and the words for its holder: an operator with a reason
    may end any lease, and the holder is told who that was."""
    if not (said.revokes and said.reason and caller.commands):
        return caller.by, said.reason
    return "operator", f"{said.reason} ({caller.name if caller.by else remote_ip(request) or 'unknown'})"


def said_reason(request: Request) -> str:
    """Return the reason that an operator gives for a call without a body: in the query, or as pages of the console do;
    raises `InvalidValue`."""
    return read_reason(request.query_params.get("reason") or unquote(request.headers.get("x-hub-reason", "")), "reason")


def check_ticket(caller: Caller, ticket: Ticket) -> None:
    """Raise `NotHolder` for a caller that may not have the lease of a ticket, nor attend it."""
    holder = LeaseHolder.read(ticket.holder)
    if holder is None or caller.by == holder.user_id:
        return
    since = time_at(ticket.since_ms / 1000) if ticket.since_ms else ""
    raise not_holder("This ticket", ticket.holder, since)

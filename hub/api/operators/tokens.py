"""Tokens of users and of nodes: made, listed and revoked by operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from fastapi import APIRouter, Request

from hub.api.credentials import origin
from hub.api.deps import reply, serving
from hub.api.identity import OPERATOR, Caller, superuser
from hub.api.operations import CALLER, operation
from hub.api.shapes import parameters as p
from hub.api.shapes import reading as bodies
from hub.api.shapes.answer import Answer
from hub.api.shapes.operators import MadeTokenShape, RevokedShape, TokenBodyShape, TokenShape, TokensShape
from hub.errors import Forbidden, InvalidJson, InvalidValue, MissingMember, NotFound
from hub.jobs.names import dashed
from hub.tokens.models import (
    JOIN,
    NODE,
    USER,
    Holder,
    Token,
    digest_of,
    in_order,
    new_secret,
    read_digest,
    read_flag,
    read_name,
    read_node,
    read_rooms,
    read_scopes,
    read_user,
    user_of,
)
from hub.wire import time_at

T = TypeVar("T")
router = APIRouter(tags=["admin"])
_REFUSALS = (Forbidden, InvalidJson, MissingMember, InvalidValue)


@router.post(
    "/admin/tokens",
    **operation(
        "createToken",
        CALLER,
        status=201,
        body=TokenBodyShape,
        refusals=_REFUSALS,
        least="admin",
    ),
)
async def create(request: Request) -> Answer[MadeTokenShape]:
    """Make a token for a user, for a node, or for nodes to join with. Its secret is in `token`, here and never again;
    with `sha256` nobody but the caller knows it, and the call may be repeated. Tokens of nodes and to join with are
    made and revoked with the admin secret alone.

    The first token of a hub without secrets shuts its jobs API to everybody who shows none.
    """
    operator, found = await superuser(request, "admin"), serving(request)
    document = await bodies.read_body(request)
    holder = _holder(document)
    _check_kind(operator, holder)
    secret = None if document.get("sha256") is not None else new_secret(found.hub.settings.realm)
    digest = digest_of(secret) if secret else None
    token = await found.hub.tokens.create(holder, digest or _member(document, "sha256", read_digest, ""))
    found.holders.forget()
    await found.hub.audit.write(
        "admin", "token.create", actor=operator.name, **await origin(request), id=token.id, user=holder.name,
        userId=dashed(holder.user), superuser=holder.superuser, scopes=" ".join(in_order(holder.scopes)) or "all",
        kind=holder.kind, rooms=", ".join(sorted(holder.rooms)) or "all",
    )  # fmt: skip
    answer = reply({**_shown(token), **({"token": secret} if secret else {})}, status=201)
    answer.headers["cache-control"] = "no-store"
    return answer


@router.get("/admin/tokens", **operation("listTokens", CALLER, p.OFFSET, p.LIMIT, refusals=_REFUSALS))
async def tokens(request: Request) -> Answer[TokensShape]:
    """The tokens, newest first, and those of HUB_TOKENS_FILE; never a secret."""
    await superuser(request, "admin")
    found = serving(request)
    offset, limit = bodies.page(request)
    total, page = await found.hub.tokens.page(offset, limit)
    in_file = [_shown(token) for token in found.holders.file.tokens]
    return reply({"total": total, "tokens": [_shown(token) for token in page], "inFile": in_file})


@router.get(
    "/admin/tokens/{id}",
    **operation("getToken", CALLER, refusals=(*_REFUSALS, NotFound)),
)
async def look(request: Request, id: str) -> Answer[TokenShape]:
    """A token, without its secret."""
    await superuser(request, "admin")
    found = serving(request)
    return reply(_shown(found.holders.file.find(id) or await found.hub.tokens.get(id)))


@router.delete(
    "/admin/tokens/{id}",
    **operation(
        "revokeToken",
        CALLER,
        refusals=(*_REFUSALS, InvalidValue, NotFound),
        least="admin",
    ),
)
async def revoke(request: Request, id: str) -> Answer[RevokedShape]:
    """Revoke a token: within a second no hub knows it any more. `last` tells that there is none left, so that a hub
    without secrets is open again."""
    operator, found = await superuser(request, "admin"), serving(request)
    if found.holders.file.find(id):
        raise InvalidValue("This token stands in HUB_TOKENS_FILE: take it out there and send SIGHUP", member="id")
    _check_kind(operator, (await found.hub.tokens.get(id)).holder)
    by = await origin(request)  # before: it may be the caller's own
    await found.hub.tokens.revoke(id)
    found.holders.forget()
    await found.hub.audit.write("admin", "token.revoke", actor=operator.name, **by, id=id)
    return reply({"revoked": id, "last": await found.holders.none()})


def _check_kind(operator: Caller, holder: Holder) -> None:
    """Raise `Forbidden` for a token that speaks for nodes: with it a superuser of the jobs API would end leases."""
    if holder.kind != USER and operator is not OPERATOR:
        raise Forbidden("Tokens of nodes, and to join with, are made and revoked with the admin secret alone.")


def _holder(document: dict[str, Any]) -> Holder:
    """Who is to show the token; raises `InvalidValue` and `MissingMember`."""
    kinds = [kind for kind in (USER, NODE, JOIN) if document.get(kind) is not None]
    if not kinds:
        raise MissingMember("missing user: the name of the user who will show the token", member="user")
    kind = kinds[0]
    of_users = ("userId", "superuser", "scopes", "rooms")
    beside = kinds[1:] or [name for name in of_users if kind != USER and document.get(name) is not None]
    if beside:
        raise InvalidValue(f"{beside[0]} must be left out beside {kind}", member=beside[0])
    if kind != USER:
        name = _member(document, kind, read_node if kind == NODE else read_name, "")
        return Holder(name, user_of(name), kind=kind)
    name = _member(document, "user", read_name, "")
    return Holder(
        name,
        _member(document, "userId", read_user, user_of(name)),
        _member(document, "superuser", read_flag, False),
        scopes=_member(document, "scopes", read_scopes, frozenset()),
        rooms=_member(document, "rooms", read_rooms, frozenset()),
    )


def _member(document: dict[str, Any], name: str, read: Callable[[Any], T], default: T) -> T:
    given = document.get(name)
    if given is None:
        return default
    try:
        return read(given)
    except ValueError as error:
        raise InvalidValue(f"{name} {error}", member=name) from None


def _shown(token: Token) -> dict[str, Any]:
    holder, at = token.holder, token.created_us
    return {
        "id": token.id,
        "kind": holder.kind,
        "user": holder.name,
        "userId": dashed(holder.user),
        "superuser": holder.superuser,
        "active": holder.active,
        "scopes": in_order(holder.scopes) or None,
        "rooms": sorted(holder.rooms) or None,
        "createdAtUtc": None if at is None else time_at(at / 1_000_000),
    }

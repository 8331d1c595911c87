"""Who calls: the secret or the token that a request shows becomes one `Caller`. At an open hub every caller is the
operator."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

from starlette.datastructures import Headers

from hub.api.callers.caller import OPERATOR, SECRET_HOLDER, STRANGER, Caller
from hub.api.handling.context import Serving
from hub.errors import Unauthorized
from hub.tokens.models import JOIN, NODE, USER, Holder, id_of
from hub.tokens.secrets import ADMIN, HEADER

_BEARER: Final = re.compile(r"bearer +([\x21-\x7e]+) *", re.IGNORECASE)


@dataclass(frozen=True)
class Shown:
    """The credentials that a client has shown: the values of its `Authorization` headers, and of `x-hub-secret`."""

    authorization: tuple[str, ...] = ()
    secret: str = ""

    @classmethod
    def of(cls, headers: Headers) -> Self:
        """Return the credentials in the headers of a request."""
        return cls(tuple(headers.getlist("authorization")), headers.get(HEADER, ""))

    @property
    def bearer(self) -> str:
        """Return the token in `Authorization`; empty when there is no value, more than one, or no bearer token."""
        found = _BEARER.fullmatch(self.authorization[0]) if len(self.authorization) == 1 else None
        return found[1] if found else ""

    @property
    def token(self) -> str:
        """Return the token in `Authorization`, else the value of `x-hub-secret`: commands send both there."""
        return self.bearer or self.secret


async def known_user(found: Serving, shown: Shown) -> Caller:
    """Return the user that has shown these credentials, or `STRANGER`; raises `StoreUnavailable` when Redis has to be
    asked and does not answer.

    Where there is a value of `Authorization` it alone decides: a valid secret does not make up for a wrong token.
    """
    if await is_open(found):
        return OPERATOR
    token = shown.bearer if shown.authorization else shown.secret
    if not shown.authorization and not found.secrets.open and found.secrets.accepts(token, ADMIN):
        return OPERATOR
    holder = await found.holders.resolve(token) if token else None
    if holder is None or not holder.active or holder.kind != USER:
        return STRANGER
    return Caller(holder.user, holder.superuser, holder.scopes, holder.name, holder.rooms)


async def node(found: Serving, headers: Headers, *roles: str) -> Caller:
    """Return the caller that speaks for any node, with the secret of one of these roles, or for the node whose token is
    shown. Raises `Unauthorized` for any other caller, and `StoreUnavailable` as `known_user` does."""
    try:
        found.secrets.check(headers, *roles)
    except Unauthorized:
        secret = Shown.of(headers).token
        holder, digest = await found.holders.resolve(secret), found.holders.digest_of(secret)
        if holder is None or digest is None or not speaks(holder):
            raise
        return Caller(name=holder.name, node=holder.name, token=id_of(digest))
    return SECRET_HOLDER


async def joiner(found: Serving, secret: str) -> Caller:
    """Return the caller with this token for joining, with which nodes get tokens of their own; raises as `node`
    does."""
    holder, digest = await found.holders.resolve(secret), found.holders.digest_of(secret)
    if holder is None or not holder.active or holder.kind != JOIN:
        raise Unauthorized()
    return Caller(name=holder.name, token=id_of(digest or ""))


async def is_open(found: Serving) -> bool:
    """Return whether every caller is the operator: there is no secret, and no token in the store or the tokens file."""
    return found.secrets.open and await found.holders.none()


def speaks(holder: Holder) -> bool:
    """Return whether a token is an active token of a node."""
    return holder.kind == NODE and holder.active

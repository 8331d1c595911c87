"""Who calls: the secret or the token that a request shows becomes one `Caller`. At an open hub every caller is the
operator."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Self

from starlette.datastructures import Headers

from hub.api.callers.caller import (
    ADMIN_HOLDER,
    BORROW,
    NODE_HOLDER,
    OPERATOR,
    SECRET_HOLDER,
    STRANGER,
    Caller,
)
from hub.api.handling.context import Serving
from hub.api.operations import TOKEN
from hub.errors import Unauthorized
from hub.tokens.models import JOIN, NODE, PREFIX, USER, Holder, id_of
from hub.tokens.secrets import ADMIN, HEADER, RUNNER
from hub.tokens.secrets import NODE as NODE_SECRET

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
    asked and does not answer, and for a token of the issuer as `OidcUsers.find` does.

    Where there is a value of `Authorization` it alone decides: a valid secret does not make up for a wrong token.
    """
    if await is_open(found):
        return OPERATOR
    token = shown.bearer if shown.authorization else shown.secret
    by_secret = not shown.authorization and not found.secrets.open and not found.secrets.is_user(token)
    if by_secret and found.secrets.accepts(token, ADMIN):
        return OPERATOR
    holder = await holder_of(found, token)
    if holder is None or not holder.active or holder.kind != USER:
        return STRANGER
    return user_with(holder)


@lru_cache(1024)
def user_with(holder: Holder) -> Caller:
    """Return the caller with this token of a user."""
    return Caller(
        holder.user, holder.superuser, holder.scopes, holder.name, holder.rooms, team=holder.team, labels=holder.labels,
        max_priority=holder.max_priority,
        commands=holder.superuser and not holder.rooms and (not holder.scopes or "admin" in holder.scopes),
    )  # fmt: skip


def lender(found: Serving, shown: Shown, roles: Sequence[str]) -> Caller | Awaitable[Caller]:
    """Return the caller of an operation that takes tokens of users who may borrow, beside the secrets of these roles
    (the admin secret is one of them) and, with `TOKEN` among the roles, tokens of nodes; an awaitable where a token may
    have to be looked up. It raises `Unauthorized`, `Forbidden` for a token without the scope, and `StoreUnavailable`.

    A token in `Authorization` counts before a secret: it says more of the caller. A token that this hub remembers is no
    secret, so it is looked for first.
    """
    token = shown.token
    holder = found.holders.remembered(token) if found.oidc is None and token.startswith(PREFIX) else None
    if holder is not None and holder.active and holder.kind == USER:
        return _borrower(holder)
    if not shown.authorization and (by_secret := _by_secret(found, shown, roles)) is not None:
        return by_secret
    return _by_token(found, shown, roles)


def _borrower(holder: Holder) -> Caller:
    caller = user_with(holder)
    caller.check_scope(BORROW)
    return caller


def _by_secret(found: Serving, shown: Shown, roles: Sequence[str]) -> Caller | None:
    if found.secrets.open:
        return None if shown.secret else ADMIN_HOLDER  # what is shown may be a token
    if found.secrets.is_user(shown.secret):
        return None
    if found.secrets.accepts(shown.secret, ADMIN):
        return ADMIN_HOLDER
    if RUNNER in roles and found.secrets.accepts(shown.secret, RUNNER):
        return SECRET_HOLDER
    return NODE_HOLDER if NODE_SECRET in roles and found.secrets.accepts(shown.secret, NODE_SECRET) else None


async def _by_token(found: Serving, shown: Shown, roles: Sequence[str]) -> Caller:
    holder = await holder_of(found, shown.token)
    if holder is not None and holder.active and holder.kind == USER:
        return _borrower(holder)
    if holder is not None and speaks(holder) and TOKEN in roles:
        return Caller(name=holder.name, node=holder.name, token=id_of(found.holders.digest_of(shown.token) or ""))
    by_secret = ADMIN_HOLDER if found.secrets.open else _by_secret(found, shown, roles)
    if by_secret is None:
        raise Unauthorized()
    return by_secret


async def holder_of(found: Serving, token: str) -> Holder | None:
    """Return the holder of a token of the hub or of the issuer, None for an unknown one; raises as `known_user`
    does."""
    if not token:
        return None
    user = await found.oidc.find(token) if found.oidc is not None else None
    return user.holder if user is not None else await found.holders.resolve(token)


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
    """Return the caller that shows this token for joining. A new node gets a token of its own with it. Raises as
    `node` does."""
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

"""The callers of the jobs API: a user with a bearer token, or the operator with the operators' secret. At an open hub
every caller is the operator."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request

from hub.api.handling.context import Serving, serving
from hub.errors import Forbidden, Unauthorized
from hub.tokens.models import USER, Holder, in_order, user_of
from hub.tokens.secrets import ADMIN, HEADER

WORKER, SUBMIT, READ = "worker", "submit", "read"  # scopes of tokens
_BEARER: Final = re.compile(r"bearer +([\x21-\x7e]+) *", re.IGNORECASE)


@dataclass(frozen=True)
class Caller:
    """A user by its id (32 hex digits), with the rights of its token. Without `scopes` the token may do everything,
    without `rooms` it is valid in all rooms."""

    user: str
    superuser: bool
    scopes: frozenset[str] = frozenset()
    name: str = ""
    rooms: frozenset[str] = frozenset()

    @property
    def key(self) -> str:
        """Return the name under which the user's calls are counted, whatever token they show."""
        return f"user:{self.user}"


@dataclass(frozen=True)
class Shown:
    """The credentials that a client has shown: the values of its `Authorization` headers, and of `x-hub-secret`."""

    authorization: tuple[str, ...] = ()
    secret: str = ""


OPERATOR: Final = Caller(user_of(""), superuser=True, name="operator")  # no user can have the empty name


async def caller(request: Request, *scopes: str) -> Caller:
    """Return the user that calls.

    Raises `Unauthorized` for a stranger, `Forbidden` for a token with none of these scopes, and `StoreUnavailable` when
    Redis has to be asked and does not answer.
    """
    found = await known(serving(request), request.headers.getlist("authorization"), request.headers.get(HEADER, ""))
    if found is None:
        raise Unauthorized()
    allow(found, *scopes)
    return found


async def reader(request: Request) -> Caller | None:
    """Return the user that reads; None for a stranger, where strangers may read.

    Raises as `caller` does where HUB_ANONYMOUS_READS is off, and `Unauthorized` for a stranger that calls the hub by a
    foreign host name.
    """
    found = serving(request)
    if not found.hub.settings.anonymous_reads:
        return await caller(request, READ)
    who = await known(found, request.headers.getlist("authorization"), request.headers.get(HEADER, ""))
    if who is None and not found.gate.may_read_unnamed(request.headers.get("host")):
        raise Unauthorized()
    return who


async def superuser(request: Request, scope: str) -> Caller:
    """Return the user that calls, which is a superuser in all rooms; raises as `caller` does, and `Forbidden` for any
    other user."""
    found = await caller(request, scope)
    if not found.superuser:
        raise Forbidden("This is for superusers.")
    if found.rooms:
        raise Forbidden("This needs a token that is not bound to rooms: it concerns all of them.")
    return found


def allow(found: Caller, *scopes: str) -> None:
    """Raise `Forbidden` unless the caller's token has one of these scopes."""
    if found.scopes and not found.scopes.intersection(scopes):
        has = ", ".join(in_order(found.scopes))
        raise Forbidden(f"This needs a token with the scope {scopes[-1]}; the one shown has {has}.")


async def known(found: Serving, authorization: Sequence[str], secret: str = "") -> Caller | None:
    """Return the user that shows these values of `Authorization` and `x-hub-secret`; None for a stranger.

    Where there is a value of `Authorization` it alone decides: a valid secret does not make up for a wrong token.
    """
    if await is_open(found):
        return OPERATOR
    if authorization:
        token = bearer(authorization)
        return _caller(await found.holders.resolve(token)) if token else None
    if not secret:
        return None
    if _is_operators(found, secret):
        return OPERATOR
    return _caller(await found.holders.resolve(secret))  # a token: commands send secrets and tokens in the same header


def bearer(authorization: Sequence[str]) -> str:
    """Return the token in the values of `Authorization`; empty when there is no value, more than one, or no bearer
    token."""
    found = _BEARER.fullmatch(authorization[0]) if len(authorization) == 1 else None
    return found[1] if found else ""


async def is_open(found: Serving) -> bool:
    """Return whether every caller is the operator: there is no secret, and no token in the store or the tokens file."""
    return found.secrets.open and await found.holders.none()


def _is_operators(found: Serving, secret: str) -> bool:
    if found.secrets.open:
        return False
    try:
        found.secrets.check_value(secret, ADMIN)
    except Unauthorized:
        return False
    return True


def _caller(holder: Holder | None) -> Caller | None:
    if holder is None or not holder.active or holder.kind != USER:
        return None
    return Caller(holder.user, holder.superuser, holder.scopes, holder.name, holder.rooms)

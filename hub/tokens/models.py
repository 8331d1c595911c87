"""Tokens and who holds them. Pure.

A secret is known here by its SHA-256 alone, and a token by the first digits of that.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args
from uuid import UUID, uuid5

Scope = Literal["worker", "submit", "read", "admin"]
Kind = Literal["user", "node", "join"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
NAME_MAX: Final = 200
NODE_MAX: Final = 512
ROOMS_MAX: Final = 100  # of one token
SECRET_MAX: Final = 512  # characters; nothing longer is looked up
ID_DIGITS: Final = 16
_USERS: Final = UUID("6f3c1d0e-5b0a-4f4e-9c5e-2f1f3a7c8d41")  # another one makes everybody somebody else
_SECRET: Final = re.compile(r"[\x21-\x7e]+")
_OF_REALM: Final = re.compile(r"hub_([a-z0-9-]{1,32})\.[A-Za-z0-9_-]{43}")
USER: Final = "user"
NODE: Final = "node"
JOIN: Final = "join"


@dataclass(frozen=True)
class Holder:
    """The holder of a token: `user` is 32 hex digits; without `scopes` it may do all that the user may, without `rooms`
    in all of them.

    A holder of kind `NODE` speaks for the node of its name and for nothing else; one of kind `JOIN` makes such tokens.
    """

    name: str
    user: str
    superuser: bool = False
    active: bool = True
    scopes: frozenset[str] = frozenset()
    rooms: frozenset[str] = frozenset()
    kind: Kind = USER


@dataclass(frozen=True)
class Token:
    """A token and its holder; `created_us` only where the store keeps it."""

    digest: str
    holder: Holder
    created_us: int | None = None

    @property
    def id(self) -> str:
        return id_of(self.digest)


def new_secret(realm: str = "") -> str:
    """Return a secret of 256 random bits that says its realm where that has a name."""
    return f"hub_{f'{realm}.' if realm else ''}{secrets.token_urlsafe(32)}"


def realm_in(secret: str) -> str | None:
    """Return the realm that a secret says, None where it says none."""
    found = _OF_REALM.fullmatch(secret)
    return found[1] if found else None


def digest_of(secret: str) -> str | None:
    """Return what is kept of a secret; None for a text that cannot be one."""
    if len(secret) > SECRET_MAX or not _SECRET.fullmatch(secret):
        return None
    return hashlib.sha256(secret.encode()).hexdigest()


def id_of(digest: str) -> str:
    """Return the name of a token that is shown instead of its secret."""
    return digest[:ID_DIGITS]


def user_of(name: str) -> str:
    """Return the id of a user of whom nothing but the name is known."""
    return uuid5(_USERS, name).hex


def read_name(value: Any) -> str:
    """Return the name of a user; ValueError tells what a name is."""
    if (
        not isinstance(value, str)
        or not 1 <= len(value) <= NAME_MAX
        or value != value.strip()
        or not value.isprintable()
    ):
        raise ValueError(f"must be 1 to {NAME_MAX} printable characters without blanks around them")
    return str(value)


def read_user(value: Any) -> str:
    """Return a UUID in any of its spellings as 32 hex digits; ValueError otherwise."""
    try:
        return UUID(value).hex
    except (ValueError, AttributeError, TypeError):
        raise ValueError("must be a UUID") from None


def read_digest(value: Any) -> str:
    """Return a SHA-256 in hex digits; ValueError otherwise."""
    if not isinstance(value, str) or not re.fullmatch(r"[0-9a-fA-F]{64}", value):
        raise ValueError("must be a SHA-256, 64 hex digits")
    return value.lower()


def read_flag(value: Any) -> bool:
    """True or False; ValueError otherwise."""
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def read_scopes(value: Any) -> frozenset[str]:
    """Return some of `SCOPES`, at least one: a token that may do everything has no scopes at all, not an empty list."""
    if not isinstance(value, list) or not value or not all(isinstance(each, str) and each in SCOPES for each in value):
        raise ValueError(f"must be a list of some of {', '.join(SCOPES)}; leave it out for all of them")
    return frozenset(value)


def read_rooms(value: Any) -> frozenset[str]:
    """Names of rooms, at least one; ValueError otherwise."""
    if not isinstance(value, list) or not 1 <= len(value) <= ROOMS_MAX or not all(map(_is_room, value)):
        raise ValueError(
            f"must be a list of 1 to {ROOMS_MAX} rooms, without @ and : but for @global; leave it out for all of them"
        )
    return frozenset(value)


def _is_room(value: Any) -> bool:
    if not isinstance(value, str) or not 1 <= len(value) <= NAME_MAX or not value.isprintable():
        return False
    return value == "@global" or not ("@" in value or ":" in value)


def read_node(value: Any) -> str:
    """Return the id of a node; ValueError tells what an id is."""
    if not isinstance(value, str) or value != value.strip() or not 1 <= len(value) <= NODE_MAX or "\0" in value:
        raise ValueError(f"must be the id of a node, 1 to {NODE_MAX} characters without blanks around them")
    return value


def in_order(scopes: Collection[str]) -> list[Scope]:
    """Scopes as people list them."""
    return [scope for scope in SCOPES if scope in scopes]

"""Tokens and their holders. No I/O.

Of a secret only its SHA-256, the digest, is kept. The id of a token is the first digits of the digest.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Any, Final, Literal, get_args
from uuid import UUID, uuid5

Scope = Literal["worker", "submit", "read", "admin", "borrow"]
Kind = Literal["user", "node", "join"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
NAME_MAX: Final = 200
NODE_MAX: Final = 512
ROOMS_MAX: Final = 100  # rooms that one token may name
LABELS_MAX: Final = 100  # patterns of labels that one token may name
TEAM_MAX: Final = 100
PRIORITY_MAX: Final = 100
EXPIRES_MAX_DAYS: Final = 3650
SECRET_MAX: Final = 512  # characters; a longer text is no secret
ID_DIGITS: Final = 16
_USERS: Final = UUID("6f3c1d0e-5b0a-4f4e-9c5e-2f1f3a7c8d41")  # never change it: user ids are made with it
PREFIX: Final = "hub_"  # of the secrets that `new_secret` makes
_SECRET: Final = re.compile(r"[\x21-\x7e]+")
_OF_REALM: Final = re.compile(r"hub_([a-z0-9-]{1,32})\.[A-Za-z0-9_-]{43}")
USER: Final = "user"
NODE: Final = "node"
JOIN: Final = "join"


@dataclass(frozen=True)
class Holder:
    """The holder of a token. `user` is the user's id in 32 hex digits. Without `scopes` it has all rights of the
    user, without `rooms` it has them in all rooms.

    It borrows what one of `labels` covers (all labels without any), with a priority of at most `max_priority`, for its
    `team`. From `expires_s`, in seconds since 1970, it is refused like a revoked token; None: never.

    A holder of kind `NODE` may act only for the node of its name; one of kind `JOIN` may only make tokens of nodes.
    """

    name: str
    user: str
    superuser: bool = False
    active: bool = True
    scopes: frozenset[str] = frozenset()
    rooms: frozenset[str] = frozenset()
    kind: Kind = USER
    team: str = ""
    labels: tuple[str, ...] = ()
    max_priority: int | None = None
    expires_s: float | None = None

    def is_good(self, now_s: float) -> bool:
        """Return whether the token is accepted at this time, in seconds since 1970."""
        return self.active and (self.expires_s is None or now_s < self.expires_s)


@dataclass(frozen=True)
class Token:
    """A token by the digest of its secret, with its holder. `created_us` is set only for a token in the store."""

    digest: str
    holder: Holder
    created_us: int | None = None

    @property
    def id(self) -> str:
        return id_of(self.digest)


def new_secret(realm: str = "") -> str:
    """Return a new secret of 256 random bits, with the name of the realm in it if the realm has one."""
    return f"{PREFIX}{f'{realm}.' if realm else ''}{secrets.token_urlsafe(32)}"


def realm_in(secret: str) -> str | None:
    """Return the name of the realm in a secret, None if there is none."""
    found = _OF_REALM.fullmatch(secret)
    return found[1] if found else None


def digest_of(secret: str) -> str | None:
    """Return the digest of a secret, SHA-256 in hex digits; None for a text that cannot be a secret."""
    if len(secret) > SECRET_MAX or not _SECRET.fullmatch(secret):
        return None
    return hashlib.sha256(secret.encode()).hexdigest()


def id_of(digest: str) -> str:
    """Return the id of the token with this digest, which is shown instead of the secret."""
    return digest[:ID_DIGITS]


def user_of(name: str) -> str:
    """Return the id that a user without an id of its own gets, made from the name: 32 hex digits."""
    return uuid5(_USERS, name).hex


def read_name(value: Any) -> str:
    """Return a value as the name of a user; raises ValueError, whose text says what a name must be."""
    if (
        not isinstance(value, str)
        or not 1 <= len(value) <= NAME_MAX
        or value != value.strip()
        or not value.isprintable()
    ):
        raise ValueError(f"must be 1 to {NAME_MAX} printable characters without blanks around them")
    return str(value)


def read_user(value: Any) -> str:
    """Return a UUID in any spelling as 32 hex digits; raises ValueError for another value."""
    try:
        found = UUID(value).hex
    except (ValueError, AttributeError, TypeError):
        raise ValueError("must be a UUID") from None
    if found == user_of(""):  # that of the operator, and so of what shared secrets do
        raise ValueError("must be the UUID of a user")
    return found


def read_digest(value: Any) -> str:
    """Return a SHA-256 in lower-case hex digits; raises ValueError for another value."""
    if not isinstance(value, str) or not re.fullmatch(r"[0-9a-fA-F]{64}", value):
        raise ValueError("must be a SHA-256, 64 hex digits")
    return value.lower()


def read_flag(value: Any) -> bool:
    """Return a value that is True or False; raises ValueError for another value."""
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def read_scopes(value: Any) -> frozenset[str]:
    """Return a list of some of `SCOPES` as a set; raises ValueError for another value, and for an empty list, because a
    token without limits leaves the field out.
    """
    if not isinstance(value, list) or not value or not all(isinstance(each, str) and each in SCOPES for each in value):
        raise ValueError(f"must be a list of some of {', '.join(SCOPES)}; leave it out for all of them")
    return frozenset(value)


def read_rooms(value: Any) -> frozenset[str]:
    """Return a list of names of rooms as a set, at least one; raises ValueError for another value."""
    if not isinstance(value, list) or not 1 <= len(value) <= ROOMS_MAX or not all(map(_is_room, value)):
        raise ValueError(
            f"must be a list of 1 to {ROOMS_MAX} rooms, without @ and : but for @global; leave it out for all of them"
        )
    return frozenset(value)


def _is_room(value: Any) -> bool:
    if not isinstance(value, str) or not 1 <= len(value) <= NAME_MAX or not value.isprintable():
        return False
    return value == "@global" or not ("@" in value or ":" in value)


def read_labels(value: Any) -> tuple[str, ...]:
    """Return a list of patterns of labels, at least one, each once; raises ValueError for another value."""
    if not isinstance(value, list) or not 1 <= len(value) <= LABELS_MAX or not all(map(_is_pattern, value)):
        raise ValueError(f"must be a list of 1 to {LABELS_MAX} patterns such as gpu:*; leave it out for all labels")
    return tuple(dict.fromkeys(value))


def _is_pattern(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= 512 and bool(re.fullmatch(r"[^\s:]+(:[^\s:]+){0,7}", value))


@lru_cache(4096)
def covers(pattern: str, label: str) -> bool:
    """Return whether a pattern covers a label, which may have wildcards itself: `*` stands for any segment, and what
    is more special is covered too. So `gpu:*` covers `gpu:a100`, `gpu:a100:80g` and `gpu:*:40g`."""
    parts, of_label = pattern.split(":"), label.split(":")
    return len(parts) <= len(of_label) and all(part in ("*", own) for part, own in zip(parts, of_label, strict=False))


def read_team(value: Any) -> str:
    """Return a value as the name of a team; raises ValueError, whose text says what a name must be."""
    name = read_name(value)
    if len(name) > TEAM_MAX:
        raise ValueError(f"must have at most {TEAM_MAX} characters")
    return name


def read_priority(value: Any) -> int:
    """Return a value as the highest priority of a token; raises ValueError for another value."""
    if isinstance(value, bool) or not isinstance(value, int) or not -PRIORITY_MAX <= value <= PRIORITY_MAX:
        raise ValueError(f"must be a whole number from {-PRIORITY_MAX} to {PRIORITY_MAX}")
    return value


def read_expiry(value: Any) -> float:
    """Return a date, or a time with its zone, as seconds since 1970; a date counts from its first moment in UTC. Raises
    ValueError for another value."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.timestamp()
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day, tzinfo=UTC).timestamp()
    raise ValueError("must be a date such as 2027-03-31, or a time with its zone")


def read_node(value: Any) -> str:
    """Return a value as the id of a node; raises ValueError, whose text says what an id must be."""
    if not isinstance(value, str) or value != value.strip() or not 1 <= len(value) <= NODE_MAX or "\0" in value:
        raise ValueError(f"must be the id of a node, 1 to {NODE_MAX} characters without blanks around them")
    return value


def in_order(scopes: Collection[str]) -> list[Scope]:
    """Return the scopes in the order of `SCOPES`."""
    return [scope for scope in SCOPES if scope in scopes]

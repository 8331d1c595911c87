"""The tokens in the store, which are made and revoked while hubs run, for all hubs at once."""

from __future__ import annotations

import hmac
from dataclasses import replace
from typing import Any
from urllib.parse import quote, unquote

import orjson

from hub.errors import InvalidValue, NodeTaken, NotFound, UnknownReply
from hub.store.keys import key_part
from hub.store.lenient import read_each
from hub.store.store import Store
from hub.tokens.models import NODE, USER, Holder, Kind, Token, digest_of, id_of, in_order, user_of

_FIELDS = ("digest", "name", "user", "superuser", "scopes", "at")
_LATER_FIELDS = ("kind", "rooms", "terms", "joined")  # fields that tokens of older hubs lack

BARRED_MS = 7 * 86_400_000  # after a revocation no join can make a new token of that node for this long
JOINING_MS = 3_600_000  # a joined token is forgotten if its node does not register within this time (hub clock)
JOINING_MAX = 1_000  # tokens of nodes not yet registered, made by one token to join with
_NOT_JOINED = {
    "taken": "cannot have this secret: it belongs to another token; make a new one.",
    "held": "has a token of its own already: give it that one, or revoke it with `hub token revoke`.",
    "registered": "is registered, and may be another machine: let that leave, or use `hub token create --node`.",
    "full": f"must wait: {JOINING_MAX} nodes joined with this token and have not registered within an hour.",
    "barred": "had its token revoked: make it a new one with `hub token create --node`.",
}


class Tokens:
    """The keeper of tokens in the store. Of a secret only the digest is stored."""

    def __init__(self, store: Store, keep_s: float) -> None:
        self._store = store
        self._keep_ms = int(keep_s * 1000)
        self._create = store.script("tokens/create")
        self._revoke = store.script("tokens/revoke")
        self._join = store.script("tokens/join")
        self._keep = store.script("tokens/keep")

    async def create(self, holder: Holder, digest: str, lives_s: float | None = None) -> Token:
        """Store a token for this holder and return it; raises `InvalidValue` if another holder has the digest.

        `lives_s` is for how many seconds from now it is good; None: until it is revoked.
        """
        terms = _terms(holder, lives_s)
        reply = await self._create(
            id=id_of(digest), digest=digest, name=holder.name, user=holder.user, superuser=int(holder.superuser),
            scopes=" ".join(in_order(holder.scopes)) if holder.kind == USER else holder.kind,
            kind=holder.kind, rooms=" ".join(sorted(map(quote, holder.rooms))), terms=terms,
            part=_part(holder),
        )  # fmt: skip
        match reply:
            case ["ok", at]:
                expires_s = None if lives_s is None else int(at) / 1_000_000 + lives_s
                return Token(digest, replace(holder, expires_s=expires_s), int(at))
            case ["taken"]:
                raise InvalidValue("sha256 belongs to another token; make a new secret", member="sha256")
        raise UnknownReply(self._create.name, reply)

    async def join(self, node: str, digest: str, by: str, *, kept: bool) -> Token:
        """Store a token for a node that has no token and is not registered, and return it; a repeat changes nothing.

        `by` is the id of the token to join with. The new token is forgotten when its node does not register within an
        hour, when it is not used for long, and, unless `kept`, when the node leaves. Raises `NodeTaken`.
        """
        holder = Holder(node, user_of(node), kind=NODE)
        reply = await self._join(
            id=id_of(digest), digest=digest, node=node, user=holder.user, part=_part(holder), by=by,
            kept="1" if kept else "once", joining_ms=JOINING_MS, joining_max=JOINING_MAX,
        )  # fmt: skip
        match reply:
            case ["ok", at]:
                return Token(digest, holder, int(at))
            case [("taken" | "held" | "registered" | "barred" | "full") as why]:
                raise NodeTaken(f"Node {node[:80]!r} {_NOT_JOINED[why]}")
        raise UnknownReply(self._join.name, reply)

    async def left(self, token_id: str) -> None:
        """Forget the token of a node that has left, if it was made by a join and not to be kept."""
        if await self._store.read("HGET", self._store.keys.token(token_id), "joined") == "once":
            await self._revoke(id=token_id, bar_ms=0)

    async def revoke(self, token_id: str) -> None:
        """Forget a token; no join can make a new token of its node for a week. Raises `NotFound` for an unknown id."""
        match await self._revoke(id=token_id, bar_ms=BARRED_MS):
            case ["ok"]:
                return
            case ["unknown"]:
                raise unknown(token_id)
            case reply:
                raise UnknownReply(self._revoke.name, reply)

    async def get(self, token_id: str) -> Token:
        """Return the token with this id; raises `NotFound` for an unknown id."""
        row = await self._store.read("HMGET", self._store.keys.token(token_id), *_FIELDS, *_LATER_FIELDS)
        found = _token(row)
        if found is None:
            raise unknown(token_id)
        return found

    async def resolve(self, secret: str) -> Holder | None:
        """Return the holder of this secret; None for a secret of no token in the store."""
        digest = digest_of(secret)
        return await self.of_digest(digest) if digest else None

    async def of_digest(self, digest: str) -> Holder | None:
        """Return the holder of the secret with this digest; None if no token in the store has it."""
        found = await self._read(id_of(digest))
        return found.holder if found and hmac.compare_digest(found.digest, digest) else None

    def now_s(self) -> float:
        """Return the time by which tokens expire: that of Redis, in seconds since 1970."""
        return self._store.wall_s()

    async def none(self) -> bool:
        """Return whether there is no token in the store."""
        return not await self._store.read("EXISTS", self._store.keys.tokens)

    async def changed(self) -> str | None:
        """Return a text that changes whenever a token is revoked, or the first one made, at any hub; None at first."""
        found = await self._store.read("HGET", self._store.keys.store, "tokens_changed")
        return None if found is None else str(found)

    async def page(self, offset: int, limit: int) -> tuple[int, list[Token]]:
        """Return how many tokens there are, and up to `limit` of them from `offset` on, the newest first."""
        keys = self._store.keys
        total, ids = await self._store.read_all(
            [("ZCARD", keys.tokens), ("ZREVRANGE", keys.tokens, offset, offset + limit - 1)]
        )
        rows = await read_each(self._store, [("HMGET", keys.token(each), *_FIELDS, *_LATER_FIELDS) for each in ids])
        return total, [token for row in rows if row and (token := _token(row))]

    async def _read(self, token_id: str) -> Token | None:
        row = await self._store.read("HMGET", self._store.keys.token(token_id), *_FIELDS, *_LATER_FIELDS)
        if row[-1] is not None:
            await self._keep(id=token_id, keep_ms=self._keep_ms)
        return _token(row)


def unknown(token_id: str) -> NotFound:
    """Return the error for an unknown token id."""
    return NotFound(f"No token has the id {token_id[:80]!r}.")


def _token(row: list[Any]) -> Token | None:
    if None in row[: len(_FIELDS)] or not str(row[_FIELDS.index("at")]).isdecimal():
        return None
    digest, name, user, superuser, scopes, at, said, rooms, terms, _ = row
    kind: Kind = said or USER
    holder = Holder(
        name,
        user,
        superuser == "1",
        True,
        frozenset(scopes.split()) if kind == USER else frozenset(),
        frozenset(map(unquote, (rooms or "").split())),
        kind,
        **_read_terms(terms, int(at) / 1_000_000),
    )
    return Token(digest, holder, int(at))


def _terms(holder: Holder, lives_s: float | None) -> str:
    """Return the terms of a token as the store keeps them; '' for a token without any."""
    said = {"team": holder.team, "labels": holder.labels, "maxPriority": holder.max_priority, "livesSeconds": lives_s}
    kept = {name: value for name, value in said.items() if value not in ("", (), None)}
    return orjson.dumps(kept).decode() if kept else ""


def _read_terms(text: str | None, at_s: float) -> dict[str, Any]:
    """Return the terms of a token that was made at `at_s`, as arguments of `Holder`. Raises ValueError for a text that
    this hub cannot read: a token must not be good for more than it was made for."""
    said = orjson.loads(text) if text else {}
    lives_s = said.get("livesSeconds")
    return {
        "team": said.get("team", ""),
        "labels": tuple(said.get("labels", ())),
        "max_priority": said.get("maxPriority"),
        "expires_s": None if lives_s is None else at_s + lives_s,
    }


def _part(holder: Holder) -> str:
    return key_part(holder.name) if holder.kind == NODE else ""

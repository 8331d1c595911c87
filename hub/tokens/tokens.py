"""The tokens that are made and revoked while hubs run: kept in the store, all hubs know them."""

from __future__ import annotations

import hmac
from typing import Any
from urllib.parse import quote, unquote

from hub.errors import InvalidValue, NodeTaken, NotFound, UnknownReply
from hub.store.keys import key_part
from hub.store.lenient import read_each
from hub.store.store import Store
from hub.tokens.models import NODE, USER, Holder, Kind, Token, digest_of, id_of, in_order, user_of

_FIELDS = ("digest", "name", "user", "superuser", "scopes", "at")
_LATER_FIELDS = ("kind", "rooms", "joined")  # that tokens of older hubs do not have

BARRED_MS = 7 * 86_400_000  # nobody joins for so long as a node whose token was revoked
JOINING_MS = 3_600_000  # on the hub clock: a token whose node does not register within this time is forgotten
JOINING_MAX = 1_000  # such tokens, made with one token to join with
_NOT_JOINED = {
    "taken": "cannot have this secret: it belongs to another token; make a new one.",
    "held": "has a token of its own already: give it that one, or revoke it with `hub token revoke`.",
    "registered": "is registered, and may be another machine: let that leave, or use `hub token create --node`.",
    "full": f"must wait: {JOINING_MAX} nodes joined with this token and have not registered within an hour.",
    "barred": "had its token revoked: make it a new one with `hub token create --node`.",
}


class Tokens:
    """Keeps `Token`; of its secret only the digest."""

    def __init__(self, store: Store, keep_s: float) -> None:
        self._store = store
        self._keep_ms = int(keep_s * 1000)
        self._create = store.script("tokens/create")
        self._revoke = store.script("tokens/revoke")
        self._join = store.script("tokens/join")
        self._keep = store.script("tokens/keep")

    async def create(self, holder: Holder, digest: str) -> Token:
        """Keep the token whose secret has this digest; raises `InvalidValue` when another holder has it."""
        reply = await self._create(
            id=id_of(digest), digest=digest, name=holder.name, user=holder.user, superuser=int(holder.superuser),
            scopes=" ".join(in_order(holder.scopes)) if holder.kind == USER else holder.kind,
            kind=holder.kind, rooms=" ".join(sorted(map(quote, holder.rooms))), part=_part(holder),
        )  # fmt: skip
        match reply:
            case ["ok", at]:
                return Token(digest, holder, int(at))
            case ["taken"]:
                raise InvalidValue("sha256 belongs to another token; make a new secret", member="sha256")
        raise UnknownReply(self._create.name, reply)

    async def join(self, node: str, digest: str, by: str, *, kept: bool) -> Token:
        """Keep this as the token of a node that has none yet and is not registered; the same digest again changes
        nothing. `by` is the token to join with. It is forgotten when its node does not register within an hour, when it
        is not shown for long, and, unless `kept`, when the node leaves. Raises `NodeTaken`.
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
        """Forget a token of a node that has left and does not keep it; others are kept for the return of the node."""
        if await self._store.read("HGET", self._store.keys.token(token_id), "joined") == "once":
            await self._revoke(id=token_id, bar_ms=0)

    async def revoke(self, token_id: str) -> None:
        """Forget a token; raises `NotFound` when no token has this id. Nobody joins as its node for a week."""
        match await self._revoke(id=token_id, bar_ms=BARRED_MS):
            case ["ok"]:
                return
            case ["unknown"]:
                raise unknown(token_id)
            case reply:
                raise UnknownReply(self._revoke.name, reply)

    async def get(self, token_id: str) -> Token:
        """Return the token with this id; raises `NotFound`."""
        row = await self._store.read("HMGET", self._store.keys.token(token_id), *_FIELDS, *_LATER_FIELDS)
        found = _token(row)
        if found is None:
            raise unknown(token_id)
        return found

    async def resolve(self, secret: str) -> Holder | None:
        """Return the holder of this secret; None for an unknown one."""
        digest = digest_of(secret)
        return await self.of_digest(digest) if digest else None

    async def of_digest(self, digest: str) -> Holder | None:
        """Return the holder of the secret with this digest; None for an unknown one."""
        found = await self._read(id_of(digest))
        return found.holder if found and hmac.compare_digest(found.digest, digest) else None

    async def none(self) -> bool:
        """Return whether there is not one token."""
        return not await self._store.read("EXISTS", self._store.keys.tokens)

    async def changed(self) -> str | None:
        """Another text than before whenever a token was revoked, or the first was made, anywhere."""
        found = await self._store.read("HGET", self._store.keys.store, "tokens_changed")
        return None if found is None else str(found)

    async def page(self, offset: int, limit: int) -> tuple[int, list[Token]]:
        """(how many there are, some of them, the newest first)."""
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
    """Return the refusal for an unknown token."""
    return NotFound(f"No token has the id {token_id[:80]!r}.")


def _token(row: list[Any]) -> Token | None:
    if None in row[: len(_FIELDS)] or not str(row[_FIELDS.index("at")]).isdecimal():
        return None
    digest, name, user, superuser, scopes, at, said, rooms, _ = row
    kind: Kind = said or USER
    holder = Holder(
        name,
        user,
        superuser == "1",
        True,
        frozenset(scopes.split()) if kind == USER else frozenset(),
        frozenset(map(unquote, (rooms or "").split())),
        kind,
    )
    return Token(digest, holder, int(at))


def _part(holder: Holder) -> str:
    return key_part(holder.name) if holder.kind == NODE else ""

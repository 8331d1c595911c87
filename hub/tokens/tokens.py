"""The tokens that are made and revoked while hubs run: kept in the store, all hubs know them."""

from __future__ import annotations

import hmac
from typing import Any

from hub.errors import InvalidValue, NotFound, UnknownReply
from hub.store.store import Store
from hub.tokens.models import Holder, Token, digest_of, id_of, in_order

_FIELDS = ("digest", "name", "user", "superuser", "scopes", "at")


class Tokens:
    """Keeps `Token`; of its secret only the digest."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._create = store.script("tokens/create")
        self._revoke = store.script("tokens/revoke")

    async def create(self, holder: Holder, digest: str) -> Token:
        """Keep the token whose secret has this digest; raises `InvalidValue` when another holder has it."""
        reply = await self._create(
            id=id_of(digest), digest=digest, name=holder.name, user=holder.user, superuser=int(holder.superuser),
            scopes=" ".join(in_order(holder.scopes)),
        )  # fmt: skip
        match reply:
            case ["ok", at]:
                return Token(digest, holder, int(at))
            case ["taken"]:
                raise InvalidValue("sha256 belongs to another token; make a new secret", member="sha256")
        raise UnknownReply(self._create.name, reply)

    async def revoke(self, token_id: str) -> None:
        """Forget a token; raises `NotFound` when no token has this id."""
        match await self._revoke(id=token_id):
            case ["ok"]:
                return
            case ["unknown"]:
                raise NotFound(f"No token has the id {token_id[:80]!r}.")
            case reply:
                raise UnknownReply(self._revoke.name, reply)

    async def resolve(self, secret: str) -> Holder | None:
        """Who holds this secret; None when nobody does."""
        digest = digest_of(secret)
        found = digest and await self._read(id_of(digest))
        if not digest or not found or not hmac.compare_digest(found.digest, digest):
            return None
        return found.holder

    async def none(self) -> bool:
        """Whether there is not one token."""
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
        rows = await self._store.read_all(("HMGET", keys.token(each), *_FIELDS) for each in ids)
        return total, [token for token in map(_token, rows) if token]

    async def _read(self, token_id: str) -> Token | None:
        return _token(await self._store.read("HMGET", self._store.keys.token(token_id), *_FIELDS))


def _token(row: list[Any]) -> Token | None:
    if None in row:
        return None
    digest, name, user, superuser, scopes, at = row
    return Token(digest, Holder(name, user, superuser == "1", True, frozenset(scopes.split())), int(at))

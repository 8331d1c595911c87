"""The look-up of the holder of a secret, in the tokens file and in the store, with a short memory."""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import Final

from hub.tokens.file import TokensFile
from hub.tokens.models import Holder, digest_of
from hub.tokens.tokens import Tokens

REMEMBERED_S: Final = 1.0  # a token that was revoked at another hub is accepted here for this long at most
EXPIRY_S = 15.0  # how often long connections are looked at again, for tokens that have come to their end
LOOKED_UP_S: Final = 600.0  # a remembered token is looked up again after this long in any case
REMEMBERED_MAX: Final = 100_000  # holders remembered at once, in about 50 MB


class Holders:
    """The look-up of holders of tokens. Only found holders are remembered, so a new token works at once.

    All holders are forgotten when any token is revoked at any hub, which is checked once a second at most. So a node
    that sends a heartbeat with its token every few seconds does not cost a look-up each time.
    """

    def __init__(self, tokens: Tokens, file: TokensFile) -> None:
        self._tokens = tokens
        self.file = file
        self._found: dict[str, tuple[float, Holder]] = {}  # by digest, the oldest look-up first
        self._none: tuple[float, bool] = (0.0, False)
        self._forgotten = 0  # calls of `forget`; a look-up that began before one is not remembered after it
        self._changed: str | None = None
        self._looked: float | None = None  # when `look` last checked for revoked tokens
        self._looking = asyncio.Lock()
        self._inside = f"inside-{secrets.token_hex(32)}-"

    @property
    def changes(self) -> tuple[int, int]:
        """Return two numbers, as of the last `look`. If they are the same as before, no holder has changed, but that a
        token may have come to its end within `EXPIRY_S`."""
        return self._forgotten + int(time.monotonic() // EXPIRY_S), self.file.readings

    async def look(self) -> None:
        """Check at most once a second whether a token was revoked at any hub, and then forget all holders; raises
        `StoreUnavailable`.
        """
        if self._is_fresh():
            return
        async with self._looking:
            if self._is_fresh():
                return
            now = time.monotonic()
            changed = await self._tokens.changed()
            if changed != self._changed:
                self._changed = changed
                self.forget()
            self._looked = now

    def _is_fresh(self) -> bool:
        return self._looked is not None and time.monotonic() - self._looked < REMEMBERED_S

    def handle(self, digest: str) -> str:
        """Return a handle: a text by which this process alone finds the holder again, without keeping the secret."""
        return self._inside + digest

    def digest_of(self, secret: str) -> str | None:
        """Return the digest of a secret, or of the secret for which `handle` made this text; None for other texts."""
        return secret[len(self._inside) :] if secret.startswith(self._inside) else digest_of(secret)

    async def resolve(self, secret: str) -> Holder | None:
        """Return the holder of this secret, None for an unknown secret; raises `StoreUnavailable` if the store must be
        asked and does not answer.
        """
        digest = self.digest_of(secret)
        known = self.file.of_digest(digest or "")
        if known is None and digest is not None:
            known = await self._in_store(digest)
        return known if known and (known.expires_s is None or known.is_good(self._tokens.now_s())) else None

    async def _in_store(self, digest: str) -> Holder | None:
        await self.look()
        now = time.monotonic()
        since, holder = self._found.get(digest, (now, None))
        if holder is not None and now - since < LOOKED_UP_S:
            return holder
        before = self._forgotten
        found = await self._tokens.of_digest(digest)
        self._found.pop(digest, None)
        if found is not None and before == self._forgotten:
            self._found[digest] = (now, found)
            while len(self._found) > REMEMBERED_MAX:
                del self._found[next(iter(self._found))]
        return found

    def remembered(self, secret: str) -> Holder | None:
        """Return the holder of this secret without asking the store; None also if the store would have to be asked."""
        digest = digest_of(secret) if self._found or self.file.tokens else None
        known = self.file.of_digest(digest) if digest is not None else None
        if known is None and digest is not None and self._is_fresh():
            since, holder = self._found.get(digest, (0.0, None))
            known = holder if time.monotonic() - since < LOOKED_UP_S else None
        return known if known and (known.expires_s is None or known.is_good(self._tokens.now_s())) else None

    async def none(self) -> bool:
        """Return whether there is no token at all, neither in the file nor in the store; raises `StoreUnavailable`."""
        if self.file.tokens:
            return False
        now = time.monotonic()
        since, none = self._none
        if since and now - since < REMEMBERED_S:
            return none
        before = self._forgotten
        none = await self._tokens.none()
        if before == self._forgotten:
            self._none = (now, none)
        return none

    def forget(self) -> None:
        """Forget all remembered holders, because a token was made or revoked."""
        self._forgotten += 1
        self._found.clear()
        self._none = (0.0, False)

"""Who holds a secret, whether the store or the file knows it; remembered for a moment."""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import Final

from hub.tokens.file import TokensFile
from hub.tokens.models import Holder, digest_of
from hub.tokens.tokens import Tokens

REMEMBERED_S: Final = 1.0  # a token that is revoked at another hub is good here for this long
LOOKED_UP_S: Final = 600.0  # after which a token is looked up again, whatever other versions of the hub may have done
REMEMBERED_MAX: Final = 100_000  # about 50 MB, when so many are shown


class Holders:
    """Answers for both. Only who was found is remembered: a token works from the moment on in which it was made.

    A holder is remembered until some token is revoked anywhere, which is looked for once a second at most: a node
    that beats with a token of its own every few seconds costs no look-up each time.
    """

    def __init__(self, tokens: Tokens, file: TokensFile) -> None:
        self._tokens = tokens
        self.file = file
        self._found: dict[str, tuple[float, Holder]] = {}  # in the order of their looking up
        self._none: tuple[float, bool] = (0.0, False)
        self._forgotten = 0  # times: what was looked up before one of them is not remembered after it
        self._changed: str | None = None
        self._looked: float | None = None  # when it was last known that nothing has been revoked since
        self._looking = asyncio.Lock()
        self._inside = f"inside-{secrets.token_hex(32)}-"

    @property
    def changes(self) -> tuple[int, int]:
        """Return two numbers that differ from before when a holder may have changed; as of the last `look`."""
        return self._forgotten, self.file.readings

    async def look(self) -> None:
        """Notice what has been revoked anywhere, but for the last second; raises `StoreUnavailable`."""
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
        """Return what stands for the secret of this digest in this process alone: a login does not keep the secret."""
        return self._inside + digest

    def digest_of(self, secret: str) -> str | None:
        """Return the digest of a secret, or of the one a handle stands for; None for a text that can be neither."""
        return secret[len(self._inside) :] if secret.startswith(self._inside) else digest_of(secret)

    async def resolve(self, secret: str) -> Holder | None:
        """Return the holder of this secret, None for an unknown one; raises `StoreUnavailable` when that cannot be
        known.
        """
        digest = self.digest_of(secret)
        known = self.file.of_digest(digest or "")
        if known is not None:
            return known
        if digest is None:
            return None
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
        """Resolve as `resolve`, for callers that cannot wait: None also when the store would have to be asked."""
        known = self.file.resolve(secret)
        if known is not None or not self._found or not self._is_fresh():
            return known
        since, holder = self._found.get(digest_of(secret) or "", (0.0, None))
        return holder if time.monotonic() - since < LOOKED_UP_S else None

    async def none(self) -> bool:
        """Return whether there is not one token; raises `StoreUnavailable` when that cannot be known."""
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
        """Look everything up anew: a token was made or revoked here."""
        self._forgotten += 1
        self._found.clear()
        self._none = (0.0, False)

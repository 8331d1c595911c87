"""Who holds a secret, whether the store or the file knows it; remembered for a moment."""

from __future__ import annotations

import time
from typing import Final

from hub.tokens.file import TokensFile
from hub.tokens.models import Holder, digest_of
from hub.tokens.tokens import Tokens

REMEMBERED_S: Final = 1.0  # a token that is revoked at another hub is good here for this long
REMEMBERED_MAX: Final = 10_000  # about 5 MB


class Holders:
    """Answers for both. Only who was found is remembered: a token works from the moment on in which it was made."""

    def __init__(self, tokens: Tokens, file: TokensFile) -> None:
        self._tokens = tokens
        self.file = file
        self._found: dict[str, tuple[float, Holder]] = {}  # in the order of their looking up
        self._none: tuple[float, bool] = (0.0, False)
        self._forgotten = 0  # times: what was looked up before one of them is not remembered after it

    async def resolve(self, secret: str) -> Holder | None:
        """Who holds this secret, None when nobody does; raises `StoreUnavailable` when that cannot be known."""
        known = self.file.resolve(secret)
        if known is not None:
            return known
        digest = digest_of(secret)
        if digest is None:
            return None
        now = time.monotonic()
        since, holder = self._found.get(digest, (now, None))
        if holder is not None and now - since < REMEMBERED_S:
            return holder
        before = self._forgotten
        found = await self._tokens.resolve(secret)
        self._found.pop(digest, None)
        if found is not None and before == self._forgotten:
            self._found[digest] = (now, found)
            while len(self._found) > REMEMBERED_MAX:
                del self._found[next(iter(self._found))]
        return found

    async def none(self) -> bool:
        """Whether there is not one token anywhere; raises `StoreUnavailable` when that cannot be known."""
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

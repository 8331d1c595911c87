"""A list as it was shown to one page, for the others that ask for it just then: all that are open hear the same events,
and fetch what they show at the same moment."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable, MutableMapping, Sequence
from typing import Any, Final

from hub.api.paths import AGE_MS

Message = MutableMapping[str, Any]
KEPT_S: Final = 1.0  # a page asks for a list at most as often
_MOST: Final = 100
_BYTES_MAX: Final = 2**20


class _SharedList:
    """An answer that is made, or was: None when no other caller may have it."""

    def __init__(self, state: Hashable) -> None:
        self.state = state
        self.at = time.monotonic()
        self.messages: asyncio.Future[Sequence[Message] | None] = asyncio.get_running_loop().create_future()
        self._heard: list[Message] = []

    def hear(self, message: Message) -> None:
        """Hear what goes to the first caller; it is for all once it is whole, however slowly that one reads."""
        self._heard.append(message)
        if message["type"] == "http.response.body" and not message.get("more_body") and not self.messages.done():
            good = self._heard[0].get("status") == 200
            size = sum(len(each.get("body", b"")) for each in self._heard)
            self.messages.set_result(self._heard if good and size <= _BYTES_MAX else None)


class SharedLists:
    """The lists of the last second. One is good for as long as nothing has happened since it was begun."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, _SharedList] = {}
        self._changes = 0

    def changed(self) -> None:
        """Note that a page has changed something: a caller that asks from now on sees it."""
        self._changes += 1

    async def find(self, key: Hashable, position: str) -> Sequence[Message] | None:
        """Return the answer to another caller that asked the same, with its age; None when none is as good as a new
        one."""
        found = self._kept.get(key)
        if found is None or found.state != (position, self._changes) or time.monotonic() - found.at >= KEPT_S:
            return None
        if (messages := await asyncio.shield(found.messages)) is None:
            return None
        start, *rest = messages
        age = b"%d" % (1000 * (time.monotonic() - found.at))
        return {**start, "headers": [*start["headers"], (AGE_MS.encode(), age)]}, *rest

    async def make(
        self, key: Hashable, position: str, render: Callable[[Callable[[Message], None]], Awaitable[None]]
    ) -> None:
        """Answer, and let others have it. `render` is given what hears each message on its way."""
        made = _SharedList((position, self._changes))
        if len(self._kept) >= _MOST:
            self._kept.clear()
        self._kept[key] = made
        try:
            await render(made.hear)
        finally:
            if not made.messages.done():
                made.messages.set_result(None)

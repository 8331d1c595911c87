"""A short-lived store of list answers for pages of the console. All open pages hear the same events and then fetch the
same lists at the same moment; the list that the first page gets is given to the others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable, MutableMapping, Sequence
from typing import Any, Final

from hub.api.paths import AGE_MS

Message = MutableMapping[str, Any]
KEPT_S: Final = 1.0  # how long an answer is kept; a page asks for a list at most once in this time
_MOST: Final = 100
_BYTES_MAX: Final = 2**20


class _SharedList:
    """An answer that is being sent or was sent to the first caller. `messages` becomes None when no other caller may
    have it."""

    def __init__(self, state: Hashable) -> None:
        self.state = state
        self.at = time.monotonic()
        self.messages: asyncio.Future[Sequence[Message] | None] = asyncio.get_running_loop().create_future()
        self._heard: list[Message] = []

    def hear(self, message: Message) -> None:
        """Keep a part of the answer on its way to the first caller. With the last part the answer is complete, and the
        waiting callers get it, however slowly the first one reads."""
        self._heard.append(message)
        if message["type"] == "http.response.body" and not message.get("more_body") and not self.messages.done():
            good = self._heard[0].get("status") == 200
            size = sum(len(each.get("body", b"")) for each in self._heard)
            self.messages.set_result(self._heard if good and size <= _BYTES_MAX else None)


class SharedLists:
    """The list answers of the last second. A list is valid as long as nothing has happened since the hub began to make
    it."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, _SharedList] = {}
        self._changes = 0

    def changed(self) -> None:
        """Note that a page has changed something: no list that was begun before is given to a caller from now on."""
        self._changes += 1

    async def find(self, key: Hashable, position: str) -> Sequence[Message] | None:
        """Return the messages of the answer to another caller with the same question, with a header that has their age
        in milliseconds; None when there is no valid answer."""
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
        """Make an answer through `render`, and keep it for other callers. `render` gets a function to call with each
        message."""
        made = _SharedList((position, self._changes))
        if len(self._kept) >= _MOST:
            self._kept.clear()
        self._kept[key] = made
        try:
            await render(made.hear)
        finally:
            if not made.messages.done():
                made.messages.set_result(None)

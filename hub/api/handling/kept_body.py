"""The body of a call that is read before the application that serves the call gets it: to find its realm, or to bound
the body of a poll of Socket.IO."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.types import Message, Receive, Scope

from hub.api.handling.exchange import too_large
from hub.api.handling.large_bodies import LIGHT, LargeBodies
from hub.errors import RequestTimedOut, TooLarge


class KeptBody:
    """A request's body that is kept while it is read, so that an application can receive it again. All other attributes
    are those of uvicorn's `RequestResponseCycle`, which later steps read."""

    def __init__(self, scope: Scope, receive: Receive, large_bodies: LargeBodies) -> None:
        self._receive = receive
        self._exchange = getattr(receive, "__self__", None)  # uvicorn's `RequestResponseCycle`
        self._large_bodies = large_bodies
        self._caller = str((scope.get("client") or [""])[0])
        self._messages: list[Message] = []
        self._loaded = 0

    async def whole(self, most: int, seconds: float) -> bytes | None:
        """Read and return the body; None when its caller is gone. Raises `TooLarge` when it has more than `most` bytes,
        `RequestTimedOut` when it does not arrive within `seconds`, and `Unavailable` when too many large bodies are
        under way."""
        size, complete = 0, False
        try:
            async with asyncio.timeout(seconds):
                while not complete and size <= most:
                    if size > LIGHT and not self._loaded:
                        await self._large_bodies.load(self._caller, most)
                        self._loaded = most
                    message = await self._receive()
                    self._messages.append(message)
                    size += len(message.get("body", b""))
                    complete = not message.get("more_body", False)
        except TimeoutError:
            raise RequestTimedOut(f"The body did not arrive within {seconds:g} s.") from None
        if size > most:
            raise TooLarge(too_large(most))
        if self._messages[-1]["type"] != "http.request":
            return None
        return b"".join(message.get("body", b"") for message in self._messages)

    async def receive(self) -> Message:
        """Return the messages that `whole` has read, one by one, and then further messages of the server."""
        return self._messages.pop(0) if self._messages else await self._receive()

    def unload(self) -> None:
        """Stop counting the body among the large ones, when the request is over."""
        if self._loaded:
            self._large_bodies.unload(self._caller, self._loaded)
            self._loaded = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._exchange, name)

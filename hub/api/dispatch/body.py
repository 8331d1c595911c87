"""The body of a call, read before it is known which realm the call is for, and read again by that one."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.types import Message, Receive, Scope

from hub.api.handling.large_bodies import LIGHT, LargeBodies
from hub.errors import RequestTimedOut


class Read:
    """A body that is read twice, and the exchange that it is of: with all that others ask of that."""

    def __init__(self, scope: Scope, receive: Receive, large_bodies: LargeBodies) -> None:
        self._receive = receive
        self._exchange = getattr(receive, "__self__", None)  # the server's own record, where it is one of uvicorn's
        self._large_bodies = large_bodies
        self._caller = str((scope.get("client") or [""])[0])
        self._messages: list[Message] = []
        self._loaded = 0

    async def whole(self, most: int, seconds: float) -> bytes | None:
        """The body; None where it has more bytes than `most`, or its caller is gone. Raises `RequestTimedOut`, and
        `Unavailable` where too many large ones are being read."""
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
        if size > most or self._messages[-1]["type"] != "http.request":
            return None
        return b"".join(message["body"] for message in self._messages)

    async def receive(self) -> Message:
        """Return what was read, and then what follows it."""
        return self._messages.pop(0) if self._messages else await self._receive()

    def unload(self) -> None:
        """The request is over."""
        if self._loaded:
            self._large_bodies.unload(self._caller, self._loaded)
            self._loaded = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._exchange, name)

"""A request and its answer, with a bound on the size of the request's body."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from starlette.types import Message, Receive, Scope, Send

from hub.api.handling.browsers import first_of
from hub.api.handling.large_bodies import LIGHT, LargeBodies
from hub.errors import TooLarge


class Exchange:
    """A request and its answer. It bounds the size of the request's body, and notes how much of the body and of the
    answer has passed."""

    def __init__(self, receive: Receive, send: Send, limit: int) -> None:
        self._large_bodies: LargeBodies | None = None
        self._scope: Scope = {}
        self._caller = ""
        self._announced = self._loaded = 0
        self._receive = receive
        self._send = send
        self._heard: Callable[[Message], None] | None = None
        self.before_answer: Callable[[], None] | None = None
        self.limit = limit
        self._received = 0
        self.too_large = False
        self.body_complete = False
        self.started = False
        self.status = 0

    def tell(self, hear: Callable[[Message], None]) -> None:
        """Call `hear` with each message of the answer as it goes out."""
        self._heard = hear

    async def repeat(self, messages: Sequence[Message]) -> None:
        """Answer with these messages, which another caller was answered with."""
        self.started, self.status = True, 200
        for message in messages:
            await self._send(message)

    def check_length(self, announced: bytes) -> None:
        """Raise `TooLarge` when the announced length of the body is above the limit, before the request is looked at
        further."""
        if announced.isdigit():
            self._announced = int(announced)
            if self._announced > self.limit:
                raise TooLarge(too_large(self.limit))

    def count_body(self, large_bodies: LargeBodies, scope: Scope) -> None:
        """From now on count the body among `large_bodies` when it is large; call this before the body is read."""
        self._large_bodies, self._scope = large_bodies, scope

    def release_body(self) -> None:
        """Stop counting the body among the large ones, when the request is over."""
        if self._large_bodies is not None and self._loaded:
            self._large_bodies.unload(self._caller, self._loaded)
            self._loaded = 0

    async def receive(self) -> Message:
        size = max(self._received, self._announced)
        if self._large_bodies is not None and not self._loaded and size > LIGHT:
            size, self._caller = self._announced or self.limit, _sender(self._scope)
            await self._large_bodies.load(self._caller, size)
            self._loaded = size
        message = await self._receive()
        if message["type"] == "http.request":
            self._received += len(message.get("body", b""))
            if self._received > self.limit:
                self.too_large = True
                raise TooLarge(too_large(self.limit))
            self.body_complete = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if self.before_answer is not None and not self.started:
            self.before_answer()
        self.started = True
        self.status = message.get("status", self.status)
        if self._heard is not None:
            self._heard(message)
        await self._send(message)


class HeadExchange(Exchange):
    """An exchange that answers HEAD: it sends the head of the answer and an empty body, and ends there even where the
    body would have no end."""

    async def receive(self) -> Message:
        return {"type": "http.disconnect"} if self.started else await super().receive()

    async def send(self, message: Message) -> None:
        if not self.started:
            await super().send(message)
            await super().send({"type": "http.response.body", "body": b"", "more_body": False})


def _sender(scope: Scope) -> str:
    """Return a name for the sender of a body: the digest of the credential that it shows, or its address."""
    headers = first_of(scope["headers"])
    shown = headers.get(b"authorization") or headers.get(b"x-hub-secret")
    return hashlib.sha256(shown).hexdigest() if shown else str((scope.get("client") or [""])[0])


def too_large(limit: int) -> str:
    return f"The body has more than {limit} bytes; send less at a time."

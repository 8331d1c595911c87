"""A request whose headers and body are read at less cost than with Starlette's class. Its headers are found by their
names in lower case only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.datastructures import Headers, QueryParams
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

_NOTHING_ASKED = QueryParams("")


class _FirstHeaders(Headers):
    """Headers that are found by name in a dictionary. Of a header that comes several times the first value counts, as
    with Starlette."""

    def __init__(self, raw: list[tuple[bytes, bytes]], first: Mapping[bytes, bytes]) -> None:
        super().__init__(raw=raw)
        self._first = first

    def get(self, key: str, default: Any = None) -> Any:
        value = self._first.get(key.encode("latin-1"))
        return default if value is None else value.decode("latin-1")


class LightRequest(Request):
    """A request of Starlette with cheaper headers and body. `first` has the first value of each header by its name in
    lower case, and headers are found by these names only."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, first: Mapping[bytes, bytes]) -> None:
        super().__init__(scope, receive, send)
        self._light_headers = _FirstHeaders(scope["headers"], first)

    @property
    def headers(self) -> Headers:
        return self._light_headers

    @property
    def query_params(self) -> QueryParams:
        return super().query_params if self.scope["query_string"] else _NOTHING_ASKED

    async def body(self) -> bytes:
        """Return the whole body; raises `ClientDisconnect` when the caller is gone. Most bodies arrive in one
        message."""
        if not hasattr(self, "_light_body"):
            message = await self.receive()
            chunks = [message]
            while message.get("more_body"):
                message = await self.receive()
                chunks.append(message)
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            self._light_body = b"".join(chunk.get("body", b"") for chunk in chunks)
        return self._light_body

"""Transports that send a bearer token with each request."""

from __future__ import annotations

import os
from collections.abc import Callable

import httpx

from hub.client.exchange import Outcome, Send, Unreachable
from hub.client.transport import AsyncTransport, Credentials, SyncTransport

Token = str | Callable[[], str] | None


class BearerToken(Credentials):
    """The token of each request. A callable is called for each; None stands for `HUB_TOKEN`, where that is set.

    Clients share nothing, as the token may differ for each request.
    """

    noun = "token"

    def __init__(self, token: Token) -> None:
        super().__init__("HUB_TOKEN" if token is None else "")
        self._token = token

    def now(self) -> str | None:
        """Return the token for the next request, or None when there is none."""
        token = self._token() if callable(self._token) else self._token
        return token if token is not None else os.environ.get("HUB_TOKEN")

    def headers(self) -> dict[str, str]:
        """Return the header with the token; none without a token. Raises what the callable raises."""
        token = self.now()
        return {"authorization": f"Bearer {token}"} if token else {}


class Wire(AsyncTransport):
    """A transport for asyncio that sends the token with each request."""

    def __init__(
        self, url: str | None = None, token: Token = None, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        super().__init__(url, BearerToken(token), transport)


class SyncWire(SyncTransport):
    """A transport for threads that sends the token with each request, over its own connections or a given client."""

    def __init__(
        self, url: str | httpx.Client | None = None, token: Token = None, transport: httpx.BaseTransport | None = None
    ) -> None:
        self.token = BearerToken(token)
        super().__init__(url, self.token, transport)

    def _send(self, send: Send) -> Outcome:
        try:
            return super()._send(send)
        except RuntimeError:
            if not self._opened()[0].is_closed:
                raise
            return Unreachable("the connections are closed", sent=False)

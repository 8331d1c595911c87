"""Transports that send a bearer token with each request, and requests whose body is bytes."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace

import httpx

from hub.client.exchange import Outcome, Send, Unreachable
from hub.client.transport import AsyncTransport, SyncTransport, headers_of

Token = str | Callable[[], str] | None


@dataclass(frozen=True, slots=True)
class Upload(Send):
    """A request whose body is `content`, sent unchanged."""

    content: bytes = b""


class Credentials:
    """The token of each request. A callable is called for each; None stands for `HUB_TOKEN`, where that is set."""

    def __init__(self, token: Token) -> None:
        self._token = token

    def now(self) -> str | None:
        """Return the token for the next request, or None when there is none."""
        token = self._token() if callable(self._token) else self._token
        return token if token is not None else os.environ.get("HUB_TOKEN")

    def shown(self) -> str:
        """Return words on `HUB_TOKEN` to add to a refusal; empty when the program gave a token itself."""
        if self._token is not None:
            return ""
        named = os.environ.get("HUB_TOKEN")
        return "the token shown was that of HUB_TOKEN" if named else "no token was shown: HUB_TOKEN is not set"

    def sign(self, send: Send) -> Send | Unreachable:
        """Return the request with the token, or `Unreachable`, as for a broken network, when the callable raises."""
        try:
            token = self.now()
        except Exception as error:  # noqa: BLE001 - the callable may fail in any way
            return Unreachable(f"there is no token: {error!r}", sent=False)
        return replace(send, headers={**send.headers, "Authorization": f"Bearer {token}"}) if token else send


class Wire(AsyncTransport):
    """A transport for asyncio that sends the token with each request."""

    def __init__(
        self, url: str | None = None, token: Token = None, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        super().__init__(url, "", "", transport)
        self._credentials = Credentials(token)
        self._token = token

    @property
    def address(self) -> None:
        """Return None: the client shares its backlog with no other, as the token may differ for each request."""

    def twin(self) -> SyncWire:
        """Return new connections to the same hub, for a thread that may outlive this client."""
        return SyncWire(str(self._client.base_url), self._token)

    def _shown(self) -> str:
        return self._credentials.shown()

    async def _send(self, send: Send) -> Outcome:
        signed = self._credentials.sign(send)
        return signed if isinstance(signed, Unreachable) else await super()._send(signed)


class SyncWire(SyncTransport):
    """A transport for threads that sends the token with each request, over its own connections or a given client."""

    def __init__(
        self, url: str | httpx.Client | None = None, token: Token = None, transport: httpx.BaseTransport | None = None
    ) -> None:
        self._lent = isinstance(url, httpx.Client)
        if isinstance(url, httpx.Client):
            self._clients = url, url
            self.given = True
        else:
            super().__init__(url, "", "", transport)
        self.credentials = Credentials(token)
        self._token = token

    @property
    def address(self) -> None:
        """Return None: the client shares its backlog with no other, as the token may differ for each request."""

    def twin(self) -> SyncWire:
        """Return new connections to the same hub, for a thread that may outlive this client."""
        return SyncWire(self.url, self._token)

    def _shown(self) -> str:
        return self.credentials.shown()

    @property
    def url(self) -> str:
        """Return the URL of the hub."""
        return str(self._client.base_url).rstrip("/")

    def _send(self, send: Send) -> Outcome:
        signed = self.credentials.sign(send)
        if isinstance(signed, Unreachable):
            return signed
        try:
            return self._upload(signed) if isinstance(signed, Upload) else super()._send(signed)
        except RuntimeError:
            if not self._client.is_closed:
                raise
            return Unreachable("the connections are closed", sent=False)

    def _upload(self, send: Upload) -> Outcome:
        options = {"content": send.content, "headers": headers_of(send), "timeout": send.timeout_s}
        try:
            return self._client.request(send.method, send.path, **options)  # type: ignore[arg-type]
        except httpx.RequestError as error:
            return Unreachable(f"no answer from {self.url}: {str(error) or type(error).__name__}")

    def close(self) -> None:
        """Close the connections, unless they were given."""
        if not self._lent:
            super().close()

"""Two thin drivers that play the steps of `exchange` over HTTP: one for asyncio, one for threads."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from typing import Any

import httpx

from hub.client.exchange import Outcome, Pause, Send, Steps, T, Unreachable, now_s

DEFAULT_URL = "http://127.0.0.1:8080"
# Shorter than the hub keeps an idle connection (30 s), so that it is never the hub that closes one under a request.
_LIMITS = httpx.Limits(max_connections=1000, max_keepalive_connections=100, keepalive_expiry=20.0)


class Stopped(Exception):
    """Raised by `SyncTransport.run` when its `stop` event was set before the steps were done."""


def _options(url: str | None, secret: str | None, secret_name: str) -> dict[str, Any]:
    secret = os.environ.get(secret_name) if secret is None else secret
    return {
        "base_url": (url or os.environ.get("HUB_URL") or DEFAULT_URL).rstrip("/"),
        "headers": {"x-hub-secret": secret} if secret else {},
    }


class _Remaining(dict[str, float]):
    """The time bounds of a request, of which each of its phases gets what those before it have left over."""

    def __init__(self, timeout_s: float) -> None:
        super().__init__(dict.fromkeys(("pool", "connect", "write", "read"), timeout_s))
        self._until_s = now_s() + timeout_s

    def __getitem__(self, phase: str) -> float:
        return max(0.001, self._until_s - now_s())

    def get(self, phase: str, default: Any = None) -> Any:
        return self[phase]


def _request(client: httpx.Client | httpx.AsyncClient, send: Send) -> httpx.Request:
    return client.build_request(
        send.method,
        send.path,
        json=send.body,
        params=dict(send.query) or None,
        headers=dict(send.headers),
        timeout=send.timeout_s,
    )


def _unreachable(client: httpx.Client | httpx.AsyncClient, error: Exception) -> Unreachable:
    reason = str(error) or type(error).__name__
    return Unreachable(f"no answer from {client.base_url}: {reason}")


class AsyncTransport:
    """Plays steps on the running event loop. One loop per transport."""

    def __init__(
        self, url: str | None, secret: str | None, secret_name: str, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._client = httpx.AsyncClient(**_options(url, secret, secret_name), limits=_LIMITS, transport=transport)

    async def run(self, steps: Steps[T]) -> T:
        """What the steps come to; raises what they raise."""
        outcome: Outcome = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as done:
                result: T = done.value
                return result
            if isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
                outcome = None
            else:
                outcome = await self._send(step)

    async def _send(self, send: Send) -> Outcome:
        try:
            async with asyncio.timeout(send.timeout_s):
                return await self._client.send(_request(self._client, send))
        except (httpx.RequestError, TimeoutError) as error:
            return _unreachable(self._client, error)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


class SyncTransport:
    """Plays steps on the calling thread; any number of threads may share one.

    The bound of a request holds for all of it, but not for looking up the name of the hub, and not for an answer that
    arrives a few bytes at a time: a thread cannot be stopped in the middle of those.
    """

    def __init__(
        self, url: str | None, secret: str | None, secret_name: str, transport: httpx.BaseTransport | None = None
    ) -> None:
        self._client = httpx.Client(**_options(url, secret, secret_name), limits=_LIMITS, transport=transport)

    def run(self, steps: Steps[T], stop: threading.Event | None = None) -> T:
        """What the steps come to; raises what they raise, or `Stopped` once `stop` is set."""
        outcome: Outcome = None
        while True:
            if stop is not None and stop.is_set():
                raise Stopped
            try:
                step = steps.send(outcome)
            except StopIteration as done:
                result: T = done.value
                return result
            if not isinstance(step, Pause):
                outcome = self._send(step)
                continue
            outcome = None
            if stop is not None:
                stop.wait(step.seconds)
            else:
                time.sleep(step.seconds)

    def _send(self, send: Send) -> Outcome:
        request = _request(self._client, send)
        request.extensions["timeout"] = _Remaining(send.timeout_s)  # httpx bounds each phase on its own
        try:
            return self._client.send(request)
        except httpx.RequestError as error:
            return _unreachable(self._client, error)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

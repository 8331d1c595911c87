"""The webhook of alerts: posted in the background, one after the other, and tried again where that may help."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import httpx

from hub.errors import HubError, StartRefused
from hub.observability import metrics
from hub.observability.logs import get_logger
from hub.outgoing import async_client
from hub.settings import Settings
from hub.settings.knobs import names_host
from hub.store.cancelling import cancel_all

TIMEOUT_S = 5.0  # for one try, from connecting to the answer
TRIES = 3
BACKOFF_S = 1.0  # before the second try, twice that before the third; half of it is chance
WAITING_MAX = 100  # alerts that wait to be posted; more are given up
LAST_WORDS_S = 3.0  # for what still waits when the hub stops
_log = get_logger("hub.sweeping")


def webhook_url(settings: Settings) -> str | None:
    """Where alerts are posted, None for nowhere; raises `StartRefused`, without showing it, for what is no address."""
    if settings.zombie_webhook_url is None or not (url := settings.zombie_webhook_url.get_secret_value()):
        return None
    try:
        parts = urlsplit(url)
        httpx.URL(url)
        usable = parts.scheme in ("http", "https") and names_host(parts.netloc) and parts.port != 0
    except (ValueError, httpx.InvalidURL):
        usable = False
    if not usable:
        raise StartRefused("HUB_ZOMBIE_WEBHOOK_URL is no address such as https://host/path (it is not shown here).")
    return url


class Webhook:
    """Posts alerts as JSON. `post` never waits; what cannot be delivered is logged and counted."""

    def __init__(self, url: str | None) -> None:
        self._url = url
        self._host = urlsplit(url).hostname if url else None  # of the rest much may be secret
        self._waiting: deque[dict[str, Any]] = deque()  # the first of them is being posted
        self._closing = asyncio.Event()
        self._posting: asyncio.Task[None] | None = None

    def post(self, alert: dict[str, Any]) -> None:
        """Have it posted as soon as those before it are."""
        if self._url is None:
            return
        if len(self._waiting) >= WAITING_MAX or self._closing.is_set():
            self._give_up(alert, "the hub is stopping" if self._closing.is_set() else "too many wait to be posted")
            return
        self._waiting.append(alert)
        if self._posting is None or self._posting.done():
            self._posting = asyncio.create_task(self._post_all(self._url), name="webhook")

    async def close(self) -> None:
        """One more try for each that waits, within a moment; then give the rest up."""
        self._closing.set()
        if self._posting is not None:
            await asyncio.wait([self._posting], timeout=LAST_WORDS_S)
            await cancel_all([self._posting])
        while self._waiting:
            self._give_up(self._waiting.popleft(), "the hub is stopping")

    async def _post_all(self, url: str) -> None:
        """Post what waits, also what comes while the connection is being closed; ends when nothing does."""
        while self._waiting:
            try:
                made = async_client(url, timeout=TIMEOUT_S)
            except HubError as error:
                self._give_up(self._waiting.popleft(), str(error))
                continue
            async with made as client:
                while self._waiting:
                    why = await self._deliver(client, url, self._waiting[0])
                    alert = self._waiting.popleft()
                    if why:
                        self._give_up(alert, why)

    async def _deliver(self, client: httpx.AsyncClient, url: str, alert: dict[str, Any]) -> str:
        """Nothing when it was taken, else why not."""
        for tried in range(1, TRIES + 1):
            why, again = await self._try(client, url, alert)
            if not again:
                return why
            if tried == TRIES or self._closing.is_set():
                break
            with suppress(TimeoutError):  # when the hub stops the next try comes at once, as the last one
                pause_s = BACKOFF_S * 2 ** (tried - 1) * random.uniform(0.5, 1.5)
                await asyncio.wait_for(self._closing.wait(), pause_s)
        return f"{why}; tried {tried} times"

    async def _try(self, client: httpx.AsyncClient, url: str, alert: dict[str, Any]) -> tuple[str, bool]:
        """Nothing when it was taken, else why not; and whether another try may help."""
        try:
            # The body of an answer is not read: it may be compressed, and it may have no end.
            async with asyncio.timeout(TIMEOUT_S), client.stream("POST", url, json=alert) as answer:
                pass
        except (httpx.TransportError, TimeoutError) as error:
            return f"it does not answer ({type(error).__name__})", True
        except Exception as error:  # noqa: BLE001 - handed on as a word: its text may hold the address
            return f"it cannot be asked ({type(error).__name__})", False
        if answer.is_success:
            return "", False
        return f"it answered {answer.status_code}", answer.status_code >= 500 or answer.status_code == 429

    def _give_up(self, alert: dict[str, Any], why: str) -> None:
        metrics.zombie_webhook_failures.inc()
        _log.error("alert not posted", source=alert.get("source"), alert=alert.get("level"), host=self._host, why=why)

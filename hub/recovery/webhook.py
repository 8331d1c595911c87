"""The webhook of alerts: it posts alerts in the background, one after the other, and repeats a failed post."""

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
BACKOFF_S = 1.0  # pause before the second try, doubled before the third; each varies by half at random
WAITING_MAX = 100  # alerts that wait to be posted; a further alert is logged as not posted
LAST_WORDS_S = 3.0  # for posting the waiting alerts when the hub stops
_log = get_logger("hub.sweeping")


def webhook_url(settings: Settings) -> str | None:
    """Return the URL to which alerts are posted, None if none is set; raises `StartRefused` if it is no URL."""
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
    """A sender of alerts as JSON. `post` never waits; an alert that cannot be delivered is logged and counted."""

    def __init__(self, url: str | None) -> None:
        self._url = url
        self._host = urlsplit(url).hostname if url else None  # logged instead of the URL, which may hold secrets
        self._waiting: deque[dict[str, Any]] = deque()  # the first alert is being posted
        self._closing = asyncio.Event()
        self._posting: asyncio.Task[None] | None = None

    def post(self, alert: dict[str, Any]) -> None:
        """Put the alert behind the waiting alerts, which a background task posts; give it up if too many wait."""
        if self._url is None:
            return
        if len(self._waiting) >= WAITING_MAX or self._closing.is_set():
            self._give_up(alert, "the hub is stopping" if self._closing.is_set() else "too many wait to be posted")
            return
        self._waiting.append(alert)
        if self._posting is None or self._posting.done():
            self._posting = asyncio.create_task(self._post_all(self._url), name="webhook")

    async def close(self) -> None:
        """Try each waiting alert once more within `LAST_WORDS_S`; then give the remaining alerts up."""
        self._closing.set()
        if self._posting is not None:
            await asyncio.wait([self._posting], timeout=LAST_WORDS_S)
            await cancel_all([self._posting])
        while self._waiting:
            self._give_up(self._waiting.popleft(), "the hub is stopping")

    async def _post_all(self, url: str) -> None:
        """Post the waiting alerts, and those that come meanwhile; return when none waits."""
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
        """Post one alert, up to `TRIES` times; return "" when the server accepted it, else why it was not delivered."""
        for tried in range(1, TRIES + 1):
            why, again = await self._try(client, url, alert)
            if not again:
                return why
            if tried == TRIES or self._closing.is_set():
                break
            with suppress(TimeoutError):  # when the hub stops, the last try comes at once
                pause_s = BACKOFF_S * 2 ** (tried - 1) * random.uniform(0.5, 1.5)
                await asyncio.wait_for(self._closing.wait(), pause_s)
        return f"{why}; tried {tried} times"

    async def _try(self, client: httpx.AsyncClient, url: str, alert: dict[str, Any]) -> tuple[str, bool]:
        """Post one alert once; return "" or why it was not accepted, and whether another try may help."""
        try:
            # The body of an answer is not read: it may be compressed, and it may have no end.
            async with asyncio.timeout(TIMEOUT_S), client.stream("POST", url, json=alert) as answer:
                pass
        except (httpx.TransportError, TimeoutError) as error:
            return f"it does not answer ({type(error).__name__})", True
        except Exception as error:  # noqa: BLE001 - only the class is returned: the text may hold the address
            return f"it cannot be asked ({type(error).__name__})", False
        if answer.is_success:
            return "", False
        return f"it answered {answer.status_code}", answer.status_code >= 500 or answer.status_code == 429

    def _give_up(self, alert: dict[str, Any], why: str) -> None:
        metrics.zombie_webhook_failures.inc()
        _log.error("alert not posted", source=alert.get("source"), alert=alert.get("level"), host=self._host, why=why)

"""Doorbells: channels that scripts ring, heard over one connection per process, whoever many wait.

A channel is subscribed to while somebody waits for it, so Redis itself leaves out what nobody here waits for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.client import PubSub

from hub.errors import StoreUnavailable
from hub.store.pulse import CUT_OFF, Pulse

IDLE_S = 1.0  # how often the reader looks up
CONFIRM_S = 5.0  # for Redis to confirm a subscription: as long as it has for any other answer by default


class Bell:
    """Rings when one of its channels does, and when the connection was lost: whoever hears it looks for himself.

    When it is `cut` it rings no more; who waits on listens anew. One that is to `keep` what its channels say gives it
    out once.
    """

    def __init__(self, *, keep: bool = False) -> None:
        self._rung = asyncio.Event()
        self._kept: list[str] | None = [] if keep else None
        self.cut = False

    def ring(self, word: str | None = None) -> None:
        """Wake whoever waits; `word` is what the channel says."""
        if self._kept is not None and word is not None:
            self._kept.append(word)
        self._rung.set()

    def said(self) -> list[str]:
        """What the channels have said since the last time, in this order."""
        words = self._kept
        if not words:
            return []
        self._kept = []
        return words

    async def wait(self, seconds: float) -> bool:
        """Whether it rang within so many seconds; it can ring again."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._rung.wait()
        rung = self._rung.is_set()
        self._rung.clear()
        return rung


class Bells:
    """The one connection, and who waits for which channel.

    One thing at a time is done to the connection, and to its end: a command that was cut short, or one that comes when
    it is being given back, would take another one from the pool that nobody knows of.
    """

    def __init__(self, client: Redis) -> None:
        self._client = client
        self._waiting: dict[str, set[Bell]] = {}
        self._confirmed: dict[str, asyncio.Future[None]] = {}  # of the connection there is
        self._pubsub: PubSub | None = None
        self._reader: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()
        self._closing = False

    @asynccontextmanager
    async def listen(self, *channels: str, keep: bool = False) -> AsyncIterator[Bell]:
        """A bell for these channels, once Redis has confirmed that it is heard; raises `StoreUnavailable`.

        With `keep` it keeps what they say, until it is asked.
        """
        bell = Bell(keep=keep)
        for channel in channels:
            self._waiting.setdefault(channel, set()).add(bell)
        try:
            subscribing = asyncio.ensure_future(self._subscribe(channels))
            subscribing.add_done_callback(_look_at)
            try:
                async with asyncio.timeout(CONFIRM_S):
                    for answer in await asyncio.shield(subscribing):
                        await asyncio.shield(answer)
            except (*CUT_OFF, TimeoutError) as error:
                raise StoreUnavailable("Redis does not answer; what was waited for may have happened.") from error
            yield bell
        finally:
            over = self._leave(bell, channels)
            if over:
                asyncio.ensure_future(self._unsubscribe(over)).add_done_callback(_look_at)

    async def close(self) -> None:
        """Ring for everybody and give the connection back."""
        self._closing = True
        if self._reader is not None:
            await asyncio.wait([self._reader], timeout=2 * IDLE_S)

    async def _subscribe(self, channels: tuple[str, ...]) -> list[asyncio.Future[None]]:
        async with self._lock:
            if self._pubsub is None:
                self._pubsub = self._client.pubsub()
            new = [channel for channel in channels if channel not in self._confirmed]
            for channel in new:
                self._confirmed[channel] = asyncio.get_running_loop().create_future()
            answers = [self._confirmed[channel] for channel in channels]
            try:
                if new:
                    await self._pubsub.subscribe(*new)
            except CUT_OFF:
                await self._give_back(self._pubsub)
                raise
            if self._reader is None or self._reader.done():
                self._reader = asyncio.create_task(self._read(self._pubsub), name="bells")
            return answers

    async def _unsubscribe(self, channels: list[str]) -> None:
        async with self._lock:
            over = [channel for channel in channels if channel not in self._waiting]
            for channel in over:
                self._confirmed.pop(channel, None)
            if over and self._pubsub is not None:
                await self._pubsub.unsubscribe(*over)

    def _leave(self, bell: Bell, channels: tuple[str, ...]) -> list[str]:
        """Wait no more; returns the channels nobody waits for."""
        over = []
        for channel in channels:
            self._waiting[channel].discard(bell)
            if not self._waiting[channel]:
                del self._waiting[channel]
                over.append(channel)
        return over

    async def _read(self, pubsub: PubSub) -> None:
        """Read until nobody waits any more."""
        pulse = Pulse(pubsub)
        try:
            while True:
                message = await pubsub.get_message(timeout=IDLE_S)
                if message is not None:
                    pulse.heard()
                    self._take(message["type"], message["channel"], message["data"])
                    continue
                async with self._lock:
                    if not self._waiting or self._closing:
                        await self._give_back(pubsub)
                        return
                    if self._pubsub is pubsub:
                        await pulse.look()
        except CUT_OFF:  # the hub clock tells of it
            async with self._lock:
                if self._pubsub is pubsub:
                    await self._give_back(pubsub)

    async def _give_back(self, pubsub: PubSub) -> None:
        """Close the connection and ring for everybody. The reader of it ends by that."""
        self._pubsub = self._reader = None
        answers, self._confirmed = list(self._confirmed.values()), {}
        for answer in answers:
            if not answer.done():
                answer.set_result(None)
        for bells in self._waiting.values():
            for bell in bells:
                bell.cut = True
                bell.ring()
        with suppress(*CUT_OFF):
            await pubsub.aclose()  # type: ignore[no-untyped-call]

    def _take(self, kind: str, channel: str, word: Any) -> None:
        if kind == "subscribe":
            answer = self._confirmed.get(channel)
            if answer is None or answer.done():  # the connection was cut, and redis-py has made another
                self._ring(channel)
            else:
                answer.set_result(None)
        elif kind == "message":
            self._ring(channel, word)

    def _ring(self, channel: str, word: str | None = None) -> None:
        for bell in self._waiting.get(channel, ()):
            bell.ring(word)


def _look_at(done: asyncio.Future[Any]) -> None:
    """A failure that nobody waits for any more is no news: the reader has met it as well."""
    if not done.cancelled():
        done.exception()

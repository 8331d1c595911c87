"""Notifications: messages that scripts publish to Redis channels, received over one connection per process.

A channel is subscribed to only while a call in this process waits for it, so Redis sends no other messages.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.client import PubSub

from hub.errors import StoreUnavailable
from hub.store.cancelling import retrieve_error
from hub.store.monitor import CUT_OFF, ConnectionMonitor

IDLE_S = 1.0  # how long one read waits for a message
CONFIRMATIONS, MESSAGES = ("subscribe", "ssubscribe"), ("message", "smessage")  # types of what a channel sends
RECHECK_S = 5.0  # a call that waits for a notification asks the store at least so often
CONFIRM_S = 5.0  # how long Redis may take to confirm a subscription: the default timeout of any answer


class Subscription:
    """A subscription of one waiting call to some channels. It is notified of each message, and when the connection is
    lost; the call then asks the store what has happened.

    Once `cut` is True it gets no more messages, and a call that waits on must listen anew. With `keep` the texts of the
    messages are kept for `texts`.
    """

    def __init__(self, *, keep: bool = False) -> None:
        self._notified = asyncio.Event()
        self._kept: list[str] | None = [] if keep else None
        self.cut = False

    def notify(self, word: str | None = None) -> None:
        """Wake the call that waits; `word` is the text of the message, None when there is none."""
        if self._kept is not None and word is not None:
            self._kept.append(word)
        self._notified.set()

    def texts(self) -> list[str]:
        """Return the texts of the messages since the last call of `texts`, in their order; empty without `keep`."""
        words = self._kept
        if not words:
            return []
        self._kept = []
        return words

    async def wait(self, seconds: float) -> bool:
        """Wait for a notification, at most `seconds`; return whether one came. It may be called again."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._notified.wait()
        notified = self._notified.is_set()
        self._notified.clear()
        return notified

    async def wait_until(self, until: float) -> bool:
        """Wait for a notification, for `RECHECK_S` at most; return False at once after `until` (monotonic time)."""
        left_s = until - time.monotonic()
        if left_s > 0:
            await self.wait(min(left_s, RECHECK_S))
        return left_s > 0


class Notifications:
    """The one connection for all channels of this process, and its subscriptions.

    Commands on the connection run one at a time under a lock, and none is cancelled: redis-py would otherwise take
    another connection from the pool, which would never be returned.
    """

    def __init__(self, client: Redis, *, in_cluster: bool = False) -> None:
        self._client = client
        self._in_cluster = in_cluster  # then sharded channels are used
        self._waiting: dict[str, set[Subscription]] = {}
        self._confirmed: dict[str, asyncio.Future[None]] = {}  # channel -> done once Redis has confirmed it
        self._pubsub: PubSub | None = None
        self._reader: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()
        self._closing = False

    @asynccontextmanager
    async def listen(self, *channels: str, keep: bool = False) -> AsyncIterator[Subscription]:
        """Subscribe to channels while the block runs; it begins once Redis has confirmed. Raises `StoreUnavailable`.

        With `keep` the subscription keeps the texts of messages until its `texts` is called.
        """
        subscription = Subscription(keep=keep)
        for channel in channels:
            self._waiting.setdefault(channel, set()).add(subscription)
        try:
            subscribing = asyncio.ensure_future(self._subscribe(channels))
            subscribing.add_done_callback(retrieve_error)
            try:
                async with asyncio.timeout(CONFIRM_S):
                    for answer in await asyncio.shield(subscribing):
                        await asyncio.shield(answer)
            except (*CUT_OFF, TimeoutError) as error:
                raise StoreUnavailable("Redis does not answer; what was waited for may have happened.") from error
            yield subscription
        finally:
            over = self._leave(subscription, channels)
            if over:
                asyncio.ensure_future(self._unsubscribe(over)).add_done_callback(retrieve_error)

    async def close(self) -> None:
        """Notify all subscriptions and close the connection."""
        self._closing = True
        if self._reader is not None:
            waking = asyncio.ensure_future(self._wake_reader())
            waking.add_done_callback(retrieve_error)
            await asyncio.wait([self._reader], timeout=2 * IDLE_S)
        with suppress(TimeoutError):
            async with asyncio.timeout(2 * IDLE_S), self._lock:  # after a command that connects again
                if self._pubsub is not None:
                    await self._give_back(self._pubsub)

    async def _wake_reader(self) -> None:
        """Ping Redis, so that the reader gets an answer and notices at once that the hub closes."""
        async with self._lock:
            if self._pubsub is not None:
                await self._pubsub.ping()

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
                    subscribe = self._pubsub.ssubscribe if self._in_cluster else self._pubsub.subscribe
                    await subscribe(*new)
            except CUT_OFF:
                await self._give_back(self._pubsub)
                raise
            if self._reader is None or self._reader.done():
                self._reader = asyncio.create_task(self._read(self._pubsub), name="notifications")
            return answers

    async def _unsubscribe(self, channels: list[str]) -> None:
        async with self._lock:
            over = [channel for channel in channels if channel not in self._waiting]
            for channel in over:
                self._confirmed.pop(channel, None)
            if over and self._pubsub is not None and not self._closing:
                unsubscribe = self._pubsub.sunsubscribe if self._in_cluster else self._pubsub.unsubscribe
                await unsubscribe(*over)

    def _leave(self, subscription: Subscription, channels: tuple[str, ...]) -> list[str]:
        """Remove a subscription; return those of its channels that have no other subscription."""
        over = []
        for channel in channels:
            self._waiting[channel].discard(subscription)
            if not self._waiting[channel]:
                del self._waiting[channel]
                over.append(channel)
        return over

    async def _read(self, pubsub: PubSub) -> None:
        """Read messages until there are no subscriptions, or the connection is cut."""
        monitor = ConnectionMonitor(pubsub)
        try:
            while True:
                message = await pubsub.get_message(timeout=IDLE_S)
                if message is not None:
                    monitor.note_message()
                    self._take(message["type"], message["channel"], message["data"])
                    if not self._closing:
                        continue
                async with self._lock:
                    if not self._waiting or self._closing:
                        await self._give_back(pubsub)
                        return
                    if self._pubsub is pubsub:
                        await monitor.check()
        except CUT_OFF:  # the hub clock logs that Redis is away
            async with self._lock:
                if self._pubsub is pubsub:
                    await self._give_back(pubsub)

    async def _give_back(self, pubsub: PubSub) -> None:
        """Close the connection and notify all subscriptions that they are cut. This ends the reader."""
        self._pubsub = self._reader = None
        answers, self._confirmed = list(self._confirmed.values()), {}
        for answer in answers:
            if not answer.done():
                answer.set_result(None)
        for notifications in self._waiting.values():
            for subscription in notifications:
                subscription.cut = True
                subscription.notify()
        with suppress(*CUT_OFF):
            await pubsub.aclose()  # type: ignore[no-untyped-call]

    def _take(self, kind: str, channel: str, word: Any) -> None:
        if kind in CONFIRMATIONS:
            answer = self._confirmed.get(channel)
            if answer is None or answer.done():  # redis-py has connected again: messages may be missing
                self._notify(channel)
            else:
                answer.set_result(None)
        elif kind in MESSAGES:
            self._notify(channel, word)

    def _notify(self, channel: str, word: str | None = None) -> None:
        for subscription in self._waiting.get(channel, ()):
            subscription.notify(word)

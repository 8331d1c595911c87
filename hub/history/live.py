"""Events as they happen: one reader of the Redis stream in this process passes each event to the listeners it fits."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from hub.errors import Stopping, Unavailable
from hub.history.events import Event, Wanted, parse_id
from hub.history.reading import History
from hub.observability import metrics
from hub.observability.logs import get_logger
from hub.store.follow import BATCH, Follower
from hub.store.store import Store

LISTENERS_MAX = 100  # listeners per process
WAITING_MAX = 2_000  # events that wait for one listener; a listener with more reads too slowly
TOGETHER = 16  # events passed to all listeners in one turn of the event loop
TURN_S = 0.2  # pause after a read that found less than a batch, as each read wakes all listeners
BUSY_TURN_S = 1.0  # longest such pause, in a busy process
PAUSE_S = 0.5  # pause before the next read after Redis did not answer
KEEP_ALIVE_S = 15.0  # all listeners are written to at least this often, so that no proxy cuts their connections
Latest = Callable[[], bytes]  # makes the bytes of a message beside the events, when it is sent
_log = get_logger("hub.events")


def pause_s(busy: float) -> float:
    """Return the seconds to pause after events were passed on, given the share of a processor that this process uses.
    In a busy process the pause is longer, because each write to a listener costs a system call."""
    return min(TURN_S / max(1 - busy, 0.01), BUSY_TURN_S)


class Busy:
    """A meter of the share of a processor that this process uses."""

    def __init__(self) -> None:
        self._at_s, self._spent_s = time.monotonic(), time.process_time()

    def share(self) -> float:
        """Return the share of a processor used since the last call: 1 is all of one, and several threads may use more.
        A time shorter than `TURN_S` counts as `TURN_S`, because it is too short to measure."""
        at_s, spent_s = self._at_s, self._spent_s
        self._at_s, self._spent_s = time.monotonic(), time.process_time()
        return (self._spent_s - spent_s) / max(self._at_s - at_s, TURN_S)


class EventListener:
    """The events that wait to be sent to one listener: one open stream of a caller."""

    def __init__(self, which: Wanted, who: str = "", *, latest: bool = False) -> None:
        self._which = which
        self.who = who
        self._waiting: list[Event] = []
        self._latest: Latest | None = None
        self.takes_latest = latest
        self._loop = asyncio.get_running_loop()
        self._news: asyncio.Future[None] | None = None  # set while `take` waits
        self.slow = False
        self.over = False  # set by `end`: no more events come

    def offer(self, events: Sequence[Event]) -> None:
        """Add the events that pass the filter. A listener with more than `WAITING_MAX` is slow and gets no more."""
        fitting = events if self._which.everything else [event for event in events if self._which.fits(event)]
        if self.slow or not fitting:
            return
        if len(self._waiting) + len(fitting) > WAITING_MAX:
            self.slow = True
            self._waiting.clear()
        else:
            self._waiting += fitting

    def offer_latest(self, latest: Latest) -> None:
        """Keep this message for the next `take`, in place of an older message that has not been taken."""
        self._latest = latest

    @property
    def has_news(self) -> bool:
        """Return whether `take` would return at once."""
        return bool(self._waiting or self._latest or self.slow or self.over)

    def end(self) -> None:
        """End the stream: `take` returns, and no more events come."""
        self.over = True
        self.wake()

    async def take(self) -> tuple[list[Event], Latest | None]:
        """Wait for news; return the events and the message that came, ([], None) for a keep-alive or the end."""
        if not self.has_news:
            self._news = self._loop.create_future()
            try:
                await self._news
            finally:
                self._news = None
        taken = self._waiting, self._latest
        self._waiting, self._latest = [], None
        return taken

    def wake(self) -> None:
        """Make a waiting `take` return, even with nothing."""
        if self._news is not None and not self._news.done():
            self._news.set_result(None)


class Live:
    """The reader of the event stream. It reads while there are listeners, and passes each event to those it fits."""

    def __init__(self, store: Store) -> None:
        self.history = History(store)
        self._store = store
        self._listeners: set[EventListener] = set()
        self._open = 0  # listeners, and callers that are just beginning to listen
        self._starting = asyncio.Lock()
        self._reader: asyncio.Task[None] | None = None
        self._readers: set[asyncio.Task[None]] = set()  # `_reader`, and earlier readers that are still ending
        self._alive: asyncio.TimerHandle | None = None  # one timer for all listeners
        self._position = "0-0"  # the id of the last event passed on
        self._pause_s = TURN_S  # the reader's latest pause
        self._stopping = False

    @property
    def followed(self) -> bool:
        """Return whether there are listeners, so that events are read and `position` moves on."""
        return self._reader is not None

    @property
    def position(self) -> str:
        """Return the id of the last event that this process passed to its listeners."""
        return self._position

    @property
    def takes_latest(self) -> bool:
        """Return whether a listener takes the messages of `tell`."""
        return any(listener.takes_latest for listener in self._listeners)

    def tell(self, latest: Latest) -> None:
        """Send a message beside the events to the listeners that take such messages. It waits a moment, to go out in
        one write with the next events."""
        for listener in self._listeners:
            if listener.takes_latest:
                listener.offer_latest(latest)
        asyncio.get_running_loop().call_later(1.5 * self._pause_s, self._wake)

    def stop(self) -> None:
        """End every listener's stream, because the hub stops; the callers connect to another hub."""
        self._stopping = True
        for listener in self._listeners:
            listener.end()

    async def close(self) -> None:
        """End the reading and close its connection; after that the store can be closed."""
        self._end_reading()
        if self._readers:
            await asyncio.wait(self._readers)

    @asynccontextmanager
    async def listen(self, which: Wanted, who: str = "", *, latest: bool = False) -> AsyncIterator[EventListener]:
        """Yield a listener to the events after `position` that pass `which`, and with `latest` to messages of `tell`.

        `who` is the caller's credential. Raises `StoreUnavailable`, `Stopping`, or `Unavailable` when too many listen.
        """
        self._check_going_on()
        if self._open >= LISTENERS_MAX and not self._make_room(who):
            raise Unavailable(f"{LISTENERS_MAX} streams of events are open at this hub, as many as there may be", 5)
        self._open += 1
        metrics.event_streams.inc()
        listener = EventListener(which, who, latest=latest)
        try:
            await self._start()
            self._check_going_on()
            self._listeners.add(listener)
            yield listener
        finally:
            self._listeners.discard(listener)
            self._open -= 1
            metrics.event_streams.dec()
            if not self._open:
                self._end_reading()

    def _make_room(self, who: str) -> bool:
        """End one stream of the credential with the most streams, if it has at least two more than `who` has. Return
        whether that made room. So no credential can keep another from listening."""
        count = Counter(listener.who for listener in self._listeners if not listener.over)
        most, held = max(count.items(), key=lambda of: of[1], default=("", 0))
        if held < count[who] + 2:
            return False
        next(listener for listener in self._listeners if listener.who == most and not listener.over).end()
        return True

    def _check_going_on(self) -> None:
        if self._stopping:
            raise Stopping("The hub is stopping")

    def _end_reading(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
            self._reader = None
        if self._alive is not None:
            self._alive.cancel()

    async def _start(self) -> None:
        async with self._starting:
            if self._reader is not None:
                return
            follower = Follower(self._store, self._store.keys.history)
            try:
                self._position = await follower.newest()
                self._check_going_on()
            except BaseException:
                await follower.close()
                raise
            self._reader = asyncio.create_task(self._read(follower), name="events")
            self._readers.add(self._reader)
            self._reader.add_done_callback(self._readers.discard)
            self._alive = asyncio.get_running_loop().call_later(KEEP_ALIVE_S, self._keep_alive)
            await asyncio.sleep(0)  # let the reader begin: cancelled before, it would not close its connection

    def _keep_alive(self) -> None:
        self._alive = asyncio.get_running_loop().call_later(KEEP_ALIVE_S, self._keep_alive)
        for listener in self._listeners:
            listener.wake()

    async def _read(self, follower: Follower) -> None:
        failing, me, busy = False, asyncio.current_task(), Busy()
        generation = self._store.generation
        try:
            while self._reader is me:  # a cancellation alone may be missed, see hub/store/cancelling.py
                try:
                    if generation != self._store.generation:
                        generation = self._store.generation
                        await self._step_back(follower)
                    entries = await follower.next(self._position)
                    try:
                        for at in range(0, len(entries), TOGETHER):
                            self._hand_out([Event.read(entry) for entry in entries[at : at + TOGETHER]])
                            await asyncio.sleep(0)
                            if self._reader is not me:
                                return
                    finally:
                        self._wake()  # once for all these events, because each time is a write to every listener
                    failing = False
                    if 0 < len(entries) < BATCH:
                        self._pause_s = pause_s(busy.share())
                        await asyncio.sleep(self._pause_s)
                except Exception as error:  # noqa: BLE001 - the reader tries again; the error is logged once
                    metrics.event_reads_failed.inc()
                    if not failing:
                        _log.warning("event history unreadable", why=str(error))
                    failing = True
                    await asyncio.sleep(PAUSE_S)
        finally:
            await follower.close()

    async def _step_back(self, follower: Follower) -> None:
        """Move `position` back to the newest event of the store, if that is below `position`.

        This happens after a failover to a Redis that lacks the last events and whose clock is behind. Else no event
        would be read until that clock has caught up.
        """
        newest = await follower.newest()
        if parse_id(newest, "id") < parse_id(self._position, "id"):
            _log.warning("event ids went back", before=self._position, after=newest)
            self._position = newest

    def _hand_out(self, events: Sequence[Event]) -> None:
        for listener in self._listeners:
            listener.offer(events)
        self._position = events[-1].id

    def _wake(self) -> None:
        for listener in self._listeners:
            if listener.has_news:  # waking the others would send them a keep-alive
                listener.wake()

"""Events as they happen: one reader of the stream in this process, and everybody who listens gets his share of it."""

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

LISTENERS_MAX = 100  # per process
WAITING_MAX = 2_000  # events per listener; one that is further behind reads too slowly
TOGETHER = 16  # events handed out in one turn of the loop, each to everybody
TURN_S = 0.2  # between reads that found less than a batch: each wakes everybody who listens
BUSY_TURN_S = 1.0  # at most, in a process that has no time to spare
PAUSE_S = 0.5  # before Redis is asked again after it did not answer
KEEP_ALIVE_S = 15.0  # shorter than any proxy waits: then everybody who listens hears something
Latest = Callable[[], bytes]  # the frame of what is said beside events, made when it is sent
_log = get_logger("hub.events")


def pause_s(busy: float) -> float:
    """How long to wait after events were handed out, where the process has taken that share of a processor since the
    last time: the less is left of it, the less often each listener is written to, which costs a call of the system."""
    return min(TURN_S / max(1 - busy, 0.01), BUSY_TURN_S)


class Busy:
    """What this process takes of a processor."""

    def __init__(self) -> None:
        self._at_s, self._spent_s = time.monotonic(), time.process_time()

    def share(self) -> float:
        """How much of one it took since it was asked last, and in a turn at least: a shorter while says nothing. 1 is
        all of it, and several threads may take more."""
        at_s, spent_s = self._at_s, self._spent_s
        self._at_s, self._spent_s = time.monotonic(), time.process_time()
        return (self._spent_s - spent_s) / max(self._at_s - at_s, TURN_S)


class EventListener:
    """What waits to be sent to somebody who listens."""

    def __init__(self, which: Wanted, who: str = "", *, latest: bool = False) -> None:
        self._which = which
        self.who = who
        self._waiting: list[Event] = []
        self._latest: Latest | None = None
        self.takes_latest = latest
        self._loop = asyncio.get_running_loop()
        self._news: asyncio.Future[None] | None = None  # while somebody waits for it
        self.slow = False
        self.over = False  # no more will come

    def offer(self, events: Sequence[Event]) -> None:
        """Take those that fit, for when it is woken; with too many waiting it is slow, and gets nothing more."""
        fitting = events if self._which.everything else [event for event in events if self._which.fits(event)]
        if self.slow or not fitting:
            return
        if len(self._waiting) + len(fitting) > WAITING_MAX:
            self.slow = True
            self._waiting.clear()
        else:
            self._waiting += fitting

    def offer_latest(self, latest: Latest) -> None:
        """Take it for when it is woken, in place of one that has not been sent."""
        self._latest = latest

    @property
    def has_news(self) -> bool:
        """Whether `take` has something to say."""
        return bool(self._waiting or self._latest or self.slow or self.over)

    def end(self) -> None:
        """Nothing more comes."""
        self.over = True
        self.wake()

    async def take(self) -> tuple[list[Event], Latest | None]:
        """What has come in; nothing when it is time to say that the stream is alive, or when this is the end."""
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
        """Have `take` answer, also with nothing."""
        if self._news is not None and not self._news.done():
            self._news.set_result(None)


class Live:
    """Reads the stream while anybody listens, and hands each event to those it fits."""

    def __init__(self, store: Store) -> None:
        self.history = History(store)
        self._store = store
        self._listeners: set[EventListener] = set()
        self._open = 0  # listeners, and those about to be
        self._starting = asyncio.Lock()
        self._reader: asyncio.Task[None] | None = None
        self._readers: set[asyncio.Task[None]] = set()  # this one, and those that end
        self._alive: asyncio.TimerHandle | None = None  # one timer costs less than one for each who listens
        self._position = "0-0"  # of the last event handed out
        self._pause_s = TURN_S  # of the reader, when it paused last
        self._stopping = False

    @property
    def followed(self) -> bool:
        """Whether anybody listens, so that `position` goes on with what happens."""
        return self._reader is not None

    @property
    def position(self) -> str:
        """The id of the last event that was handed out."""
        return self._position

    @property
    def takes_latest(self) -> bool:
        """Whether anybody listens who takes what `tell` tells."""
        return any(listener.takes_latest for listener in self._listeners)

    def tell(self, latest: Latest) -> None:
        """Say something beside events to those who take it: together with the events that come next where some come
        soon, for each write costs a call of the system."""
        for listener in self._listeners:
            if listener.takes_latest:
                listener.offer_latest(latest)
        asyncio.get_running_loop().call_later(1.5 * self._pause_s, self._wake)

    def stop(self) -> None:
        """The hub stops: every stream ends, and its reader goes to another hub."""
        self._stopping = True
        for listener in self._listeners:
            listener.end()

    async def close(self) -> None:
        """Nothing is read any more when this returns, and no connection of it is open: the store can be closed."""
        self._end_reading()
        if self._readers:
            await asyncio.wait(self._readers)

    @asynccontextmanager
    async def listen(self, which: Wanted, who: str = "", *, latest: bool = False) -> AsyncIterator[EventListener]:
        """What happens after `position`, and with `latest` what `tell` tells, to the credential `who`.

        Raises `StoreUnavailable`, `Stopping`, or `Unavailable` when too many do.
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
        """End the stream of a credential that has the most, where that has two more than `who` has: no credential keeps
        another from listening."""
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
            await asyncio.sleep(0)  # it has begun: one that is cancelled before would leave its connection open

    def _keep_alive(self) -> None:
        self._alive = asyncio.get_running_loop().call_later(KEEP_ALIVE_S, self._keep_alive)
        for listener in self._listeners:
            listener.wake()

    async def _read(self, follower: Follower) -> None:
        failing, me, busy = False, asyncio.current_task(), Busy()
        generation = self._store.generation
        try:
            while self._reader is me:  # looked at as well as cancelled, which may be missed: hub/store/cancelling.py
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
                        self._wake()  # once for all of them: each time is a write to every listener
                    failing = False
                    if 0 < len(entries) < BATCH:
                        self._pause_s = pause_s(busy.share())
                        await asyncio.sleep(self._pause_s)
                except Exception as error:  # noqa: BLE001 - listeners go on listening; the line tells of it, once
                    metrics.event_reads_failed.inc()
                    if not failing:
                        _log.warning("event history unreadable", why=str(error))
                    failing = True
                    await asyncio.sleep(PAUSE_S)
        finally:
            await follower.close()

    async def _step_back(self, follower: Follower) -> None:
        """Where the store is another one now, and its events are numbered lower than those of the one before - it had
        lost the last ones, and its clock is behind - go on at its end: else nothing came before its clock caught up.
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
            if listener.has_news:  # else it would tell that there is nothing
                listener.wake()

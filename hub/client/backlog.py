"""Calls that a client could not deliver to the hub in time: a thread repeats them for as long as they are of use."""

from __future__ import annotations

import asyncio
import logging
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from hub.client import forks
from hub.client.exchange import RetryPolicy, Steps, passing, words_of
from hub.client.transport import AsyncTransport, SyncTransport
from hub.errors import HubError, HubUnavailable
from hub.retries import now_s, pause_s

log = logging.getLogger("hub.client")
Play = Callable[[Steps[object]], object]  # plays steps (see `exchange`) and returns their result

ONCE = RetryPolicy(trouble_s=0.0, attempt_s=2.0)  # the thread repeats by itself; one attempt must not delay an exit
KEEP_S = 900.0  # for a message whose time limit the client does not know: the default length of a lease
EXIT_S = 5.0  # for all messages together, once only backlogs keep the interpreter running
CLOSE_S = 3.0  # for a client whose connections end when it is closed
HURRIED_PAUSE_S = 0.3  # between attempts once there is a time limit
LOOK_S = 0.1  # between two looks whether the interpreter exits


@dataclass(frozen=True, slots=True)
class Message:
    """A call that the hub has not accepted yet."""

    action: str
    """The words that complete the sentence "could not ...", such as `return slot s1`."""
    steps: Callable[[], Steps[object]]
    """Returns the steps of one attempt, which are safe to repeat and harmless when late."""
    until_s: float
    """The time, on the clock of `now_s`, after which the message is of no use."""
    consequence: str
    """The words on what happens when the call is never delivered."""
    on_end: Callable[[bool], object] = lambda delivered: None
    """Called with True once the message is delivered, with False once it is dropped."""


def clock(until_s: float) -> str:
    """Return a moment on the clock of `now_s` as local time of day, `HH:MM:SS`."""
    return f"{datetime.now().astimezone() + timedelta(seconds=until_s - now_s()):%H:%M:%S}"


class Backlog:
    """The messages of the clients of one hub, oldest first, and the thread that delivers them, while there are any.

    The thread tries only the first message, with growing pauses, until the hub takes or refuses it; then it sends the
    others. Once only threads of backlogs keep the interpreter running, `EXIT_S` seconds are left for all messages.
    """

    def __init__(self, http: AsyncTransport | SyncTransport) -> None:
        self._given = http if http.given else None  # else the thread makes its own connections
        self._twin = http.twin
        self.begin_anew()
        _all.add(self)
        forks.note(self)

    def begin_anew(self) -> None:
        """Drop all messages without a word, in a forked child: its parent delivers them."""
        self._changed = threading.Condition()
        self._messages: deque[Message] = deque()
        self._thread: _Thread | None = None
        self._by_s: float | None = None  # the time limit for all messages, once there is one

    def add(self, message: Message, error: BaseException) -> None:
        """Deliver a message in the background, after an attempt that ended with `error`."""
        log.warning(
            "could not %s yet (%s); it is tried again, else %s", message.action, words_of(error), message.consequence
        )
        with self._changed:
            self._messages.append(message)
            self._changed.notify_all()
            if self._thread is not None:
                return
            loop = asyncio.get_running_loop() if isinstance(self._given, AsyncTransport) else None
            thread = _Thread(target=self._deliver, args=(loop,), name="hub-backlog", daemon=False)
            try:
                thread.start()
            except RuntimeError:
                self._drop("the interpreter exits and takes no new thread")
            else:
                self._thread = thread

    def waiting(self) -> int:
        """Return the number of messages that are not delivered yet."""
        with self._changed:
            return len(self._messages)

    def close(self, seconds: float) -> None:
        """Wait up to `seconds` until all messages are delivered, then log and drop the rest."""
        with self._changed:
            if self._messages:
                self._by_s = now_s() + seconds
                self._changed.notify_all()
            self._changed.wait_for(lambda: not self._messages, seconds)
            self._drop("no time is left")

    def end_with_client(self) -> bool:
        """Return whether messages are left that need a given transport, which may end when the client is closed."""
        return self._given is not None and self.waiting() > 0

    def _drop(self, why: str) -> None:
        while self._messages:
            self._end(self._messages[0], why)

    def _end(self, message: Message, why: str) -> None:
        """Remove the first message, which was delivered, or with a reason `why` never will be."""
        if why:
            log.warning("could not %s (%s); %s", message.action, why, message.consequence)
        else:
            log.info("the hub was told at last: %s", message.action)
        message.on_end(not why)
        self._messages.popleft()
        self._changed.notify_all()  # last: a program that closes the backlog may end here

    # -- in the thread ------------------------------------------------------------------------------------------------

    @contextmanager
    def _connected(self, loop: asyncio.AbstractEventLoop | None) -> Iterator[Play]:
        """Yield a function that plays steps: over the given transport, or over new connections of this thread.

        An `AsyncTransport` works only on the event loop of its client.
        """
        if isinstance(self._given, AsyncTransport):
            assert loop is not None
            yield partial(_play_on, loop, self._given)
        elif self._given is not None:
            yield self._given.run
        else:
            with closing(self._twin()) as own:
                yield own.run

    def _deliver(self, loop: asyncio.AbstractEventLoop | None) -> None:
        failures, last_error = 0, "no time is left"
        with ExitStack() as stack:
            try:
                play = stack.enter_context(self._connected(loop))
            except Exception as broken:  # noqa: BLE001 - such as a changed environment; later messages may succeed
                with self._changed:
                    self._drop(f"there is no way to the hub: {broken!r}")
                    self._thread = None
                return
            while (message := self._first()) is not None:
                if now_s() >= min(message.until_s, self._by_s or message.until_s):
                    self._done(message, last_error)
                    continue
                error, again = _attempt(play, message)
                if error is None or not again:
                    failures = 0
                    self._done(message, "" if error is None else words_of(error))
                else:
                    last_error = words_of(error)
                    self._pause(message, pause_s(failures, error.retry_after_s))
                    failures += 1

    def _first(self) -> Message | None:
        with self._changed:
            if self._messages:
                return self._messages[0]
            if self._thread is threading.current_thread():
                self._thread, self._by_s = None, None
            return None

    def _done(self, message: Message, why: str) -> None:
        with self._changed:
            if self._messages and self._messages[0] is message:  # else it was dropped meanwhile
                self._end(message, why)

    def _pause(self, message: Message, seconds: float) -> None:
        """Wait until the next attempt, but only for a moment when the interpreter exits or the backlog is closed."""
        until_s = min(now_s() + seconds, message.until_s)
        with self._changed:
            while self._messages:
                if self._by_s is None and _exiting():
                    self._by_s = now_s() + EXIT_S
                if self._by_s is not None:
                    until_s = min(until_s, now_s() + HURRIED_PAUSE_S, self._by_s)
                    self._changed.wait(max(0.0, until_s - now_s()))
                    return
                if now_s() >= until_s:
                    return
                self._changed.wait(min(until_s - now_s(), LOOK_S))


class _Thread(threading.Thread):
    """The thread of a backlog. It is no daemon, so that the interpreter waits for it when it exits."""


def _play_on(loop: asyncio.AbstractEventLoop, http: AsyncTransport, steps: Steps[object]) -> object:
    playing = http.run(steps)
    try:
        return asyncio.run_coroutine_threadsafe(playing, loop).result(2 * ONCE.attempt_s)
    except (RuntimeError, TimeoutError):  # the loop is closed, or does not run any more
        playing.close()
        raise HubUnavailable("the event loop of the client has ended") from None


def backlog_of(http: AsyncTransport | SyncTransport) -> Backlog:
    """Return the backlog for a client: clients with the same hub and secret share one, which outlives them."""
    if http.given or http.address is None:
        return Backlog(http)
    if (backlog := _by_address.get(http.address)) is None:
        backlog = _by_address[http.address] = Backlog(http)  # when two threads make one at once, both deliver
    return backlog


def all_delivered() -> bool:
    """Return whether no client of this process has a message left to deliver."""
    return not any(backlog.waiting() for backlog in list(_all))


def drop_everything(seconds: float = 0.0) -> None:
    """Log and drop the messages of all clients that are not delivered within `seconds`, for a program that ends."""
    for backlog in list(_all):
        backlog.close(seconds)


def _attempt(play: Play, message: Message) -> tuple[HubError | None, bool]:
    """Try a message once; return the error (None: delivered), and whether another attempt may help."""
    try:
        play(message.steps())
    except HubError as error:
        return error, passing(error)
    except Exception as error:  # noqa: BLE001 - a bug, which must not stop the other messages
        return HubError(f"it broke off with {error!r}"), False
    return None, False


def _exiting() -> bool:
    """Return whether only threads of backlogs keep the interpreter running."""
    return not any(
        thread.is_alive() and not thread.daemon and not isinstance(thread, _Thread) for thread in threading.enumerate()
    )


_all: weakref.WeakSet[Backlog] = weakref.WeakSet()
_by_address: weakref.WeakValueDictionary[Any, Backlog] = weakref.WeakValueDictionary()

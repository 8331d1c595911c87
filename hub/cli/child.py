"""A command that runs as a child process: it gets the signals of this process, and its descendants end with it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Self

from hub.client.signals import ending, is_for_the_program
from hub.errors import HubError
from hub.processes import children, descendants, die_with, libc

# Seconds from the end of the terminal until the command is killed: no second Ctrl-C can come.
HANG_UP_GRACE_S = 10.0
# Seconds for the processes that a command has started to end, once a signal has ended the command itself.
REST_GRACE_S = 10.0
_LOOK_S = 0.05
_PR_SET_CHILD_SUBREAPER = 36


class Child:
    """A running command and those of its descendants that the system lets this process find.

    In the foreground of a terminal the command stays in the process group of this process, so that Ctrl-C and Ctrl-Z
    work as usual. Otherwise it gets a group of its own, to which signals are sent.
    """

    def __init__(self, process: asyncio.subprocess.Process, *, own_group: bool, earlier_children: set[int]) -> None:
        """Take a started process; `earlier_children` are the ids of the child processes that were there before it."""
        self._process = process
        self._own_group = own_group
        self._earlier_children = earlier_children
        self._sent: set[int] = set()  # the signals that were sent to it
        self._timer: asyncio.TimerHandle | None = None
        self.asked_to_stop = False

    @classmethod
    async def start(cls, command: list[str], environment: Mapping[str, str], when_we_die: signal.Signals) -> Child:
        """Start a command; on Linux it gets the signal `when_we_die` if this process is killed."""
        own_group = not _in_front_of_a_terminal()
        if libc is not None:
            libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
        earlier_children = set(children(os.getpid()))
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                env=dict(environment),
                process_group=0 if own_group else None,
                preexec_fn=die_with(os.getpid(), when_we_die),
            )
        except OSError as error:
            raise HubError(f"The command {command[0]!r} could not be started: {error.strerror or error}.") from None
        child = cls(process, own_group=own_group, earlier_children=earlier_children)
        if libc is not None:  # orphans of the command become our children, and are reaped
            asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, child._adopted)
        return child

    @property
    def pid(self) -> int:
        """Return the process id of the command."""
        return self._process.pid

    async def wait(self) -> int:
        """Wait for the end of the command and return its exit code: after a signal 128 plus its number, as in shells.

        When a signal ended the command, the processes that it has started are ended as well, after a grace period.
        """
        code = await self._process.wait()
        if self._sent or code < 0:
            await self._end_the_rest()
        if self._timer is not None:
            self._timer.cancel()
        asyncio.get_running_loop().remove_signal_handler(signal.SIGCHLD)
        return code if code >= 0 else 128 - code

    def forward(self, number: int) -> None:
        """Pass a signal on to the command: unchanged if the program gives it its meaning, else as one that asks to end.

        Ctrl-C is not sent again when the terminal has sent it to the command. When the terminal is closed, only this
        process hears of it: the command gets SIGHUP, and is killed if it runs on after the grace period.
        """
        if is_for_the_program(number):
            self._send(number, [self.pid] if self._process.returncode is None else [])
            return
        if number == signal.SIGHUP:
            self._signal(signal.SIGHUP)
            self._signal(signal.SIGCONT)  # else a stopped process would not notice
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(HANG_UP_GRACE_S, self.kill)
        elif number != signal.SIGINT:
            self._signal(signal.SIGTERM)
        elif self._own_group:
            self._signal(signal.SIGINT)
        else:
            self._sent.add(signal.SIGINT)

    def terminate(self) -> None:
        """Ask the command and its descendants to end, by SIGTERM."""
        self.asked_to_stop = True
        self._signal(signal.SIGTERM)

    async def stop(self, grace_s: float) -> int:
        """Ask the command to end, kill it if it still runs after `grace_s` seconds, and return its exit code."""
        if not self.asked_to_stop:
            self.terminate()
        with suppress(TimeoutError):
            await asyncio.wait_for(self.wait(), grace_s)
        self.kill()
        return await self.wait()

    def kill(self) -> None:
        """Kill the command and its descendants at once, also descendants that are left after its end."""
        self._signal(signal.SIGKILL)

    async def _end_the_rest(self) -> None:
        """Wait for the end of the descendants, and kill those that run after the grace period."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + REST_GRACE_S
        if not self._sent & {signal.SIGTERM, signal.SIGHUP}:  # background processes of a shell ignore Ctrl-C
            self._signal(signal.SIGTERM)
        while self._is_left():
            if loop.time() >= until_s:
                self.kill()
                return
            await asyncio.sleep(_LOOK_S)

    def _is_left(self) -> bool:
        if libc is not None:
            return bool(self._all())
        try:
            os.killpg(self.pid if self._own_group else 0, 0)
        except (ProcessLookupError, PermissionError):
            return False
        return self._own_group  # else this process is in that group too, which says nothing

    def _signal(self, number: int) -> None:
        """Send a signal to the process group of the command, and to each descendant outside of it."""
        self._sent.add(number)
        if self._own_group:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)
        self._send(number, [pid for pid in self._all() if not (self._own_group and _group(pid) == self.pid)])

    def _send(self, number: int, pids: Iterable[int]) -> None:
        for pid in pids:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)

    def _all(self) -> list[int]:
        """Return the process ids of the command, while it runs, and of its descendants, on Linux with its orphans."""
        roots = self._adopted()
        if self._process.returncode is None:
            roots.append(self.pid)
        return [pid for root in roots for pid in (root, *descendants(root))]

    def _adopted(self) -> list[int]:
        """Reap the ended orphans of the command, and return the process ids of those that run."""
        orphans = set(children(os.getpid())) - self._earlier_children - {self.pid}
        return [orphan for orphan in orphans if os.waitpid(orphan, os.WNOHANG) == (0, 0)]


class Signals:
    """`with Signals(act):` - calls `act` with each signal that would end this process; `then` may be set later."""

    def __init__(self, then: Callable[[int], object]) -> None:
        self.then = then
        self.seen: int | None = None
        self._watched = ending()

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()
        for number in self._watched:
            loop.add_signal_handler(number, self._got, number)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        loop = asyncio.get_running_loop()
        for number in self._watched:
            loop.remove_signal_handler(number)

    def _got(self, number: int) -> None:
        self.seen = number
        self.then(number)


@contextmanager
def interruptible(refusal: str = "") -> Iterator[Signals]:
    """End the block at a signal: without an error, or with a `HubError` of this sentence."""
    task = asyncio.current_task()
    assert task is not None
    with Signals(lambda _: task.cancel()) as signals:
        try:
            yield signals
        except asyncio.CancelledError:
            if refusal:
                raise HubError(refusal) from None


def _in_front_of_a_terminal() -> bool:
    """Return whether this process is in the foreground of a terminal."""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return 0

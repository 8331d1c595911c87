"""A command under our wing: it gets our signals, and nothing of it is left running when it must not be."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from hub.errors import HubError

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


class Child:
    """A running command, and what it has started, as far as that can be known.

    In front of a terminal it stays in our process group, so that Ctrl-C and Ctrl-Z mean what they always mean;
    everywhere else it gets a group of its own, which is signalled as one.
    """

    def __init__(self, process: asyncio.subprocess.Process, *, own_group: bool) -> None:
        self._process = process
        self._own_group = own_group
        self.told_to_stop = False

    @classmethod
    async def start(cls, command: list[str], environment: Mapping[str, str], when_we_die: signal.Signals) -> Child:
        """Start it with this environment; where the system can, it gets `when_we_die` if we are killed."""
        own_group = not _in_front_of_a_terminal()
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                env=dict(environment),
                process_group=0 if own_group else None,
                preexec_fn=die_with(os.getpid(), when_we_die),
            )
        except OSError as error:
            raise HubError(f"The command {command[0]!r} could not be started: {error.strerror or error}.") from None
        return cls(process, own_group=own_group)

    @property
    def pid(self) -> int:
        """The process id of the command itself."""
        return self._process.pid

    async def wait(self) -> int:
        """Its exit code once it has ended; 128 and the number of the signal that ended it, as shells say it."""
        code = await self._process.wait()
        return code if code >= 0 else 128 - code

    def forward(self, signum: signal.Signals) -> None:
        """Pass on a signal we got, unless the terminal has given it to the command as well."""
        if self._own_group or signum not in (signal.SIGINT, signal.SIGHUP):
            self._signal(signum)

    def terminate(self) -> None:
        """Ask it to end."""
        self.told_to_stop = True
        self._signal(signal.SIGTERM)

    async def stop(self, grace_s: float) -> int:
        """Ask it to end, and end it when it has not after `grace_s`; its exit code."""
        if not self.told_to_stop:
            self.terminate()
        with suppress(TimeoutError):
            await asyncio.wait_for(self.wait(), grace_s)
        self.kill()
        return await self.wait()

    def kill(self) -> None:
        """End it, with all it has started, at once; also what is left of it when it has ended itself."""
        self._signal(signal.SIGKILL)

    def _signal(self, signum: signal.Signals) -> None:
        if self._own_group:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signum)
            return
        if self._process.returncode is not None:
            return
        for pid in (self.pid, *_descendants(self.pid)):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signum)


class Signals:
    """`with Signals(act):` - calls `act` with each SIGTERM, SIGINT or SIGHUP; `then` may be set to something else."""

    def __init__(self, then: Callable[[signal.Signals], object]) -> None:
        self.then = then
        self.seen: signal.Signals | None = None
        self._watched = [signal.SIGTERM, signal.SIGINT]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # ignored: somebody said `nohup`
            self._watched.append(signal.SIGHUP)

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()
        for signum in self._watched:
            loop.add_signal_handler(signum, self._got, signum)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        loop = asyncio.get_running_loop()
        for signum in self._watched:
            loop.remove_signal_handler(signum)

    def _got(self, signum: signal.Signals) -> None:
        self.seen = signum
        self.then(signum)


def _in_front_of_a_terminal() -> bool:
    """Whether we are what the person at the terminal is looking at."""
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


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    for listing in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, listing.read_text().split()):
                found += [child, *_descendants(child)]
    return found


def die_with(parent: int, signum: signal.Signals) -> Callable[[], None]:
    """A step between fork and exec, where the system has it: what outlived us would go on using what is not ours."""

    def prepare() -> None:
        if _libc is not None:
            _libc.prctl(_PR_SET_PDEATHSIG, int(signum))
        if os.getppid() != parent:
            os._exit(1)

    return prepare

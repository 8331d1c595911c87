"""A program that runs for a slot: it is started with marks, watched without a thread, and killed with its children."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from hub.client.guard import is_set_within
from hub.errors import HubError
from hub.processes import descendants, die_with, without_secrets

_OUTPUT_BYTES = 256 * 1024  # the most that is kept of what a command prints
_TAIL_BYTES = 500
_GRACE_S = 5.0
_KILL_S = 1.0
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Unwell(HubError):
    """A slot does not work; the message is the reason that operators and its holder read."""


class Program(asyncio.SubprocessProtocol):
    """A running program, in a session of its own, which on Linux is killed when this process dies.

    `pid` names it, `code` is its exit code once it has ended (minus the number of the signal that ended it).
    """

    def __init__(self, on_end: Callable[[], object]) -> None:
        self.pid = 0
        self.code: int | None = None
        self.ended = asyncio.Event()
        self._on_end = on_end
        self._closed = asyncio.Event()
        self._out, self._err = bytearray(), bytearray()
        self._transport: asyncio.SubprocessTransport | None = None

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        reads: bool = False,
        cwd: Path | None = None,
        on_end: Callable[[], object] = lambda: None,
    ) -> Program:
        """Start a program; with `reads`, what it prints is kept. Raises `Unwell` when it cannot be started."""
        try:
            _, program = await asyncio.get_running_loop().subprocess_exec(
                lambda: cls(on_end), *command, env=dict(environment), cwd=cwd, stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE if reads else asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE, start_new_session=True,
                preexec_fn=die_with(os.getpid(), signal.SIGKILL),
            )  # fmt: skip
        except OSError as error:
            raise Unwell(f"{command[0]} could not be started: {error.strerror or error}") from None
        return program

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the id of the program that was started."""
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._transport, self.pid = transport, transport.get_pid()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Keep the beginning of what is printed to stdout, and the end of what is printed to stderr."""
        if fd == 1:
            self._out += data[: _OUTPUT_BYTES - len(self._out)]
        else:
            self._err = (self._err + data)[-_TAIL_BYTES:]

    def process_exited(self) -> None:
        """Note the end of the program."""
        assert self._transport is not None
        self.code = self._transport.get_returncode()
        self.ended.set()
        self._on_end()

    def connection_lost(self, error: Exception | None) -> None:
        """Note that the program has ended and all that it printed has been read."""
        if self._transport is not None:
            self._transport.close()
        self._closed.set()

    async def output(self) -> str:
        """Wait for the end of the program and return what it has printed. Raises `Unwell` for a status but 0."""
        await self.ended.wait()
        await is_set_within(0.2, self._closed)  # a child of it may keep the pipe open, as the server of adb does
        if self.code:
            raise Unwell(self.why())
        return self._out.decode("utf-8", "replace")

    def why(self) -> str:
        """Return how the program has ended, with the last line that it printed to stderr, or else to stdout."""
        code = self.code or 0
        how = f"was ended by signal {-code}" if code < 0 else f"ended with status {code}"
        said = (bytes(self._err).strip() or bytes(self._out[-_TAIL_BYTES:])).decode("utf-8", "replace")
        lines = [line for line in said.splitlines() if line.strip()]
        return f"the program {how}" + (f": {lines[-1].strip()[:120]}" if lines else "")

    def is_stopped(self) -> bool:
        """Return whether the program is stopped, as by SIGSTOP; False where /proc is missing."""
        with suppress(OSError):
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
        return False

    def memory(self) -> int:
        """Return the bytes that the program and its descendants have in memory and share with no other program."""
        total = 0
        for pid in (self.pid, *descendants(self.pid)):
            with suppress(OSError):
                _, resident, shared, *_ = Path(f"/proc/{pid}/statm").read_text().split()
                total += (int(resident) - int(shared)) * _PAGE
        return total

    async def end(self) -> None:
        """Ask the program to end, by SIGTERM, and kill it when it runs on after a grace period."""
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)
        await is_set_within(_GRACE_S, self.ended)
        await self.kill()

    async def kill(self) -> None:
        """Kill the program with its session, and return once it has ended, or hangs in the kernel."""
        self._signal(signal.SIGKILL)
        await is_set_within(_KILL_S, self.ended)
        if self._transport is not None:
            self._transport.close()

    def _signal(self, number: signal.Signals) -> None:
        if self.code is None:  # else the id may be that of another program by now
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)


async def output_of(command: Sequence[str], timeout_s: float, environment: Mapping[str, str] | None = None) -> str:
    """Run a command to its end and return what it printed. Raises `Unwell` when it fails or takes too long."""
    program = await Program.start(command, environment or without_secrets(os.environ), reads=True)
    try:
        async with asyncio.timeout(timeout_s):
            return await program.output()
    except TimeoutError:
        raise Unwell(f"{command[0]} did not end within {timeout_s:g} s") from None
    finally:
        if program.code is None:
            await program.kill()


def without_threads() -> None:
    """Have asyncio watch programs without a thread for each, which it does by itself from Python 3.12 on."""
    if sys.platform == "linux" and sys.version_info < (3, 12):
        watcher = asyncio.PidfdChildWatcher()
        watcher.attach_loop(asyncio.get_running_loop())
        asyncio.set_child_watcher(watcher)

"""Programs in front of a terminal that a test holds the other end of."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Mapping, Sequence

from tests.cli.command import Command
from tests.forks import Fork, begin
from tests.world import PATIENCE_S, wait_until

HUB = (sys.executable, "-m", "hub.cli")
# In a process that leads a session already: the terminal that is its stdout is that of the session.
TAKE_IT = """
import fcntl, os, sys, termios
os.dup2(1, 0)
fcntl.ioctl(1, termios.TIOCSCTTY, 0)
sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # what they were may have been a file
"""


class Terminal:
    """A `hub` command, or another program, that leads the session of a terminal of `size`, its lines and columns."""

    def __init__(
        self,
        command: Command,
        *words: str,
        program: Sequence[str] = HUB,
        more: Mapping[str, str] | None = None,
        before: str | None = None,
        size: tuple[int, int] = (24, 80),
    ) -> None:
        """With `before`, Python that runs in it first, the command is a fork of a process that has imported it."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        self._modes = termios.tcgetattr(theirs)
        environment = {**command.environment, "TERM": "xterm-256color", **(more or {})}
        for name in ("NO_COLOR", "COLUMNS", "FORCE_COLOR"):
            environment.pop(name, None)
        self.process: subprocess.Popen[bytes] | Fork
        with open(theirs, "r+b", buffering=0) as its:
            if before is None:
                self.process = subprocess.Popen([*program, *words], env=environment, preexec_fn=lambda: _log_in(theirs))
            else:
                self.process = begin(words, environment, its, its, before=f"{TAKE_IT}\n{before}", alone=True)
        self._ours = ours
        self._closing = os.pipe()
        self._said = b""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # the other side is gone
            while select.select([self._ours, self._closing[0]], [], [])[0] == [self._ours]:
                data = os.read(self._ours, 4096)
                if not data:
                    break
                self._said += data

    @property
    def shown(self) -> str:
        """Return the output so far, which may end in the middle of a character or of an end of a line."""
        return self._said.decode(errors="replace").replace("\r\n", "\n")

    @property
    def picture(self) -> str:
        """The last whole picture of what is shown again and again in one place."""
        return self.shown.split("\x1b[H\x1b[J")[-2]

    @property
    def plain(self) -> str:
        """Return the text on the screen, without colours."""
        return re.sub(r"\x1b\[[0-9;]*m", "", self.shown)

    @property
    def has_its_modes_back(self) -> bool:
        """Whether the modes of the terminal are those from before the program."""
        return bool(termios.tcgetattr(self._ours) == self._modes)

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def until(self, text: str) -> None:
        wait_until(lambda: text in self.shown, 60, lambda: f"never showed {text!r}: {self.shown!r}")

    def end(self) -> int:
        code = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return code

    def hang_up(self) -> None:
        """Close the window: the system tells the leader of the session, and it alone."""
        if self._ours >= 0:
            os.write(self._closing[1], b"!")
            self._reader.join(PATIENCE_S)
            for end in (self._ours, *self._closing):
                os.close(end)
            self._ours = -1

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.end()
        self.hang_up()


def _log_in(terminal: int) -> None:
    os.login_tty(os.dup(terminal))

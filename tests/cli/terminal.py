"""Programs in front of a terminal that a test holds the other end of."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Mapping, Sequence

from tests.cli.command import Command
from tests.world import PATIENCE_S, wait_until

HUB = (sys.executable, "-m", "hub.cli")


class Terminal:
    """A `hub` command, or another program, in front of a terminal of 80 columns."""

    def __init__(
        self, command: Command, *words: str, program: Sequence[str] = HUB, more: Mapping[str, str] | None = None
    ) -> None:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        environment = {**command.environment, "TERM": "xterm-256color", **(more or {})}
        for name in ("NO_COLOR", "COLUMNS", "FORCE_COLOR"):
            environment.pop(name, None)
        self.process = subprocess.Popen([*program, *words], env=environment, preexec_fn=lambda: os.login_tty(theirs))
        os.close(theirs)
        self._ours = ours
        self._said = b""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # the other side is gone
            while data := os.read(self._ours, 4096):
                self._said += data

    @property
    def shown(self) -> str:
        """What stands there so far; what was read may end in the middle of a character, or of an end of a line."""
        return self._said.decode(errors="replace").replace("\r\n", "\n")

    @property
    def picture(self) -> str:
        """The last whole picture of what is shown again and again in one place."""
        return self.shown.split("\x1b[H\x1b[J")[-2]

    @property
    def plain(self) -> str:
        """What stands there, without colours."""
        return re.sub(r"\x1b\[[0-9;]*m", "", self.shown)

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def until(self, text: str) -> None:
        wait_until(lambda: text in self.shown, 60, lambda: f"never showed {text!r}: {self.shown!r}")

    def end(self) -> int:
        code = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return code

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.end()
        os.close(self._ours)

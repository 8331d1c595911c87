"""The whole terminal for one command, which gets each key and redraws the screen.

The terminal is restored at the end, also after an error."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
import tty
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.live import Live

_WORDS = {
    b"\x1b[A": "up", b"\x1b[B": "down", b"\x1bOA": "up", b"\x1bOB": "down", b"\x1b[5~": "page up",
    b"\x1b[6~": "page down",
    b"\x1b": "escape", b"\r": "enter", b"\n": "enter", b"\x7f": "back", b"\x08": "back", b"\t": "tab", b"\x04": "q",
}  # fmt: skip


def is_terminal() -> bool:
    """Return whether stdin and stdout are a terminal on which a program can draw."""
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


class Screen:
    """`with Screen(pressed, changed):` - calls `pressed` with each key, and `changed` when it must be redrawn."""

    def __init__(self, pressed: Callable[[str], None], changed: Callable[[], None]) -> None:
        self._pressed, self._changed = pressed, changed
        self._keys = sys.stdin.fileno()
        self._before: list[Any] = []
        self._console = Console(highlight=False)
        self._live: Live | None = None

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._open()
        loop.add_reader(self._keys, self._read)
        loop.add_signal_handler(signal.SIGWINCH, self._changed)
        loop.add_signal_handler(signal.SIGTSTP, self._suspend)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._keys)
        for number in (signal.SIGWINCH, signal.SIGTSTP):
            loop.remove_signal_handler(number)
        self._close()

    def draw(self, picture: Any) -> None:
        """Replace the content of the screen by a Rich object."""
        if self._live is not None:
            self._live.update(picture, refresh=True)

    def _open(self) -> None:
        self._before = termios.tcgetattr(self._keys)
        tty.setcbreak(self._keys)
        self._live = Live(console=self._console, screen=True, auto_refresh=False, redirect_stdout=False)
        self._live.start()

    def _close(self) -> None:
        with suppress(OSError, termios.error):  # the terminal is gone
            if self._live is not None:
                self._live.stop()
                self._live = None
            termios.tcsetattr(self._keys, termios.TCSADRAIN, self._before)

    def _suspend(self) -> None:
        """Restore the terminal and stop this process on Ctrl-Z; take the terminal again once it is continued."""
        self._close()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._open()
        self._changed()

    def _read(self) -> None:
        data = b""
        with suppress(OSError):
            data = os.read(self._keys, 1024)
        if not data:  # the terminal is gone
            self._pressed("q")
            return
        if data in _WORDS:
            self._pressed(_WORDS[data])
            return
        for char in data.decode(errors="replace"):
            self._pressed(_WORDS.get(char.encode(), char))

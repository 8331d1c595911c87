"""A progress bar on stderr, drawn on terminals only."""

from __future__ import annotations

import os
import sys
from types import TracebackType
from typing import Any, Self


def is_watched() -> bool:
    """Return whether stderr is a terminal on which a program can draw."""
    return sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"


class Bar:
    """`with Bar("reset", total) as bar:` - a bar that `bar.to(done)` moves, and that the end of the block removes."""

    def __init__(self, what: str, total: int | None) -> None:
        self._what, self._total = what, total
        self._drawn: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        if is_watched():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
            self._drawn = Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._drawn.add_task(self._what, total=self._total)
            self._drawn.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._drawn is not None:
            self._drawn.stop()

    def to(self, done: int) -> None:
        """Move the bar to `done` of the total."""
        if self._drawn is not None:
            self._drawn.update(self._task, completed=done)

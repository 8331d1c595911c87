"""The progress of a command on stderr: a bar, or a line that changes; drawn on terminals only."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hub.cli import output


def is_watched() -> bool:
    """Return whether stderr is a terminal on which a program can draw."""
    return sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"


@contextmanager
def bar(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Draw a bar while the block runs; the function that the block gets moves the bar to that many of the total."""
    if not is_watched():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as drawn:
        task = drawn.add_task(what, total=total)
        yield lambda done: drawn.update(task, completed=done)


@contextmanager
def changing_line(text: str) -> Iterator[Callable[[str], None]]:
    """Show a text while the block runs; the function that the block gets replaces it, or prints a note elsewhere."""
    if not is_watched():
        yield output.note
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(Text(text)) as status:
        yield lambda text: status.update(Text(output.one_line(text)))

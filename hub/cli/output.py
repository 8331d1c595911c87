"""What people and programs see: results on stdout, everything else on stderr. Colours only on a terminal."""

from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

# What a table may take where nobody looks at it through a window: no line of it is broken.
UNBOUNDED = 100_000
GAP = 3

_STATE_STYLES = {
    "alive": "green", "suspect": "yellow", "stale": "red", "draining": "cyan",
    "free": "green", "lent": "yellow", "held": "cyan",
}  # fmt: skip


class ReaderGone(Exception):
    """Whoever read our stdout has seen enough. Not an OSError: those are failures of the command itself."""


def put(text: str) -> None:
    """One line of result on stdout, at once: whoever reads it through a pipe is waiting for it."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        raise ReaderGone from None


def put_json(document: Any) -> None:
    """The one JSON document of this command."""
    plain = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
    put(json.dumps(document, indent=2, ensure_ascii=plain))


def note(sentence: str) -> None:
    """A sentence for the person who called, on stderr."""
    with suppress(BrokenPipeError):
        print(f"hub: {one_line(sentence)}", file=sys.stderr, flush=True)


def put_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    *,
    numbers: Collection[str] = (),
    expendable: Sequence[str] = (),
) -> None:
    """A table; `numbers` are the columns that line up on the right. Where stdout is no terminal, plain text.

    A terminal too narrow for all of it is spared the `expendable` columns, one after the other.
    """
    shown = list(columns)
    cells = [dict(zip(columns, map(_cell, row), strict=True)) for row in rows]
    for column in expendable:
        widths = [max([len(name), *(row[name].cell_len for row in cells)]) for name in shown]
        if sum(widths) + GAP * (len(widths) - 1) <= _width(sys.stdout):
            break
        shown.remove(column)
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for column in shown:
        table.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    for row in cells:
        table.add_row(*(row[column] for column in shown))
    put(render(table, sys.stdout))


def render(thing: Any, stream: TextIO) -> str:
    """The text of something Rich can show, as wide and as coloured as the stream bears it."""
    terminal = stream.isatty()
    console = Console(file=io.StringIO(), force_terminal=terminal, width=_width(stream), highlight=False)
    with console.capture() as capture:
        console.print(thing)
    return "\n".join(line.rstrip() for line in capture.get().rstrip("\n").split("\n"))


def _width(stream: TextIO) -> int:
    return shutil.get_terminal_size().columns if stream.isatty() else UNBOUNDED


def _cell(value: Any) -> Text:
    match value:
        case None | "":
            return Text("-", style="dim")
        case bool():
            return Text("yes" if value else "no")
        case _:
            text = one_line(str(value))
            return Text(text, style=_STATE_STYLES.get(text, ""))


def one_line(text: str) -> str:
    """Foreign text without anything that breaks a line or that a terminal would obey."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def duration(seconds: Any) -> str:
    """`0.4 s`, `12 s`, `3 min 5 s`, `2 h 10 min`, `3 d 4 h`; `-` for what is no number."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return "-"
    if seconds < 10:
        return f"{max(0.0, seconds):.1f} s"
    whole = int(seconds)
    for size, name, small_size, small in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // small_size
            return f"{whole // size} {name}" + (f" {rest} {small}" if rest else "")
    return f"{whole} s"


def pairs(facts: Any) -> str:
    """`region=eu os=linux`."""
    return " ".join(f"{key}={value}" for key, value in facts.items()) if isinstance(facts, dict) else ""


def plural(count: Any, noun: str) -> str:
    """`1 slot`, `2 slots`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def put_facts(facts: Iterable[tuple[str, Any]]) -> None:
    """Names and values, one under the other."""
    grid = Table.grid(padding=(0, GAP, 0, 0))
    grid.add_column(style="bold")
    grid.add_column(overflow="fold")
    for name, value in facts:
        grid.add_row(name, _cell(value))
    put(render(grid, sys.stdout))

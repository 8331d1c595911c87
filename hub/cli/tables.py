"""Tables and facts as text, as wide and as coloured as the terminal allows."""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hub.cli import global_options, output

# The width of a table that is not printed on a terminal, so that no line is broken.
UNBOUNDED = 100_000
GAP = 3
_TOP_LEFT: Final = "\x1b[H\x1b[J"  # the cursor to the top left, and clear the screen below it
# Columns of ids that are copied into the next command.
IDS: Final = frozenset(
    {
        "NODE", "POOL", "SLOT", "RUN", "LABEL", "TICKET", "TASK", "JOB", "WORKER", "ID", "SETTING", "TOKEN", "SCHEDULE",
        "PROVIDER", "REALM",
    }
)  # fmt: skip

STATE_STYLES = {
    "alive": "green", "suspect": "yellow", "stale": "red", "draining": "cyan",
    "free": "green", "lent": "yellow", "held": "cyan",
}  # fmt: skip


def put_table(
    columns: Iterable[str],
    rows: Sequence[Sequence[Any]],
    *,
    numbers: Collection[str] = (),
    expendable: Sequence[str] = (),
    rare: Collection[str] = (),
) -> None:
    """Print a table, as plain text when stdout is no terminal; `numbers` are the right-aligned columns.

    The `rare` columns are left out where no row has a value. On a terminal that is too narrow, the `expendable` columns
    are left out in this order until the rest fits.
    """
    columns = tuple(columns)
    filled = {name for row in rows for name, value in zip(columns, row, strict=True) if value not in (None, "")}
    shown = [name for name in columns if name in filled or name not in rare]
    cells = [dict(zip(columns, map(_cell, row), strict=True)) for row in rows]
    widths = {name: max([len(name), *(row[name].cell_len for row in cells)]) for name in columns}
    width = _width(sys.stdout)
    for column in expendable:
        if sum(widths[name] for name in shown) + GAP * (len(shown) - 1) <= width:
            break
        if column in shown:
            shown.remove(column)
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for column in shown:
        justify: Literal["left", "right"] = "right" if column in numbers else "left"
        least_width = widths[column] if column in IDS else None
        table.add_column(column, justify=justify, overflow="fold", min_width=least_width, no_wrap=column in IDS)
    for row in cells:
        table.add_row(*(row[column] for column in shown))
    # Ids are copied by users, so they are never broken: when they do not fit, the terminal breaks the lines.
    least = sum(widths[name] if name in IDS else len(name) for name in shown) + GAP * (len(shown) - 1)
    output.put_rendered(render(table, sys.stdout, least))


def begin_picture(caption: str) -> None:
    """Print the time and `caption` above a table that is refreshed, on a terminal after clearing the screen."""
    now = output.instant(datetime.now(UTC))
    output.put_rendered(f"{_TOP_LEFT}{now}  {caption}" if sys.stdout.isatty() else now)


def render(thing: Any, stream: TextIO, least: int = 0) -> str:
    """Return the text of a Rich object, as wide and as coloured as the stream allows."""
    terminal = stream.isatty()
    console = Console(file=io.StringIO(), force_terminal=terminal, width=max(least, _width(stream)), highlight=False)
    with console.capture() as capture:
        console.print(thing)
    return "\n".join(line.rstrip() for line in capture.get().rstrip("\n").split("\n"))


def _width(stream: TextIO) -> int:
    bounded = stream.isatty() and not global_options.is_given(global_options.WIDE)
    return shutil.get_terminal_size().columns if bounded else UNBOUNDED


def _cell(value: Any) -> Text:
    match value:
        case None | "":
            return Text("-", style="dim")
        case bool():
            return Text("yes" if value else "no")
        case _:
            text = output.one_line(str(value))
            return Text(text, style=STATE_STYLES.get(text, ""))


def put_facts(facts: Iterable[tuple[str, Any]]) -> None:
    """Print pairs of name and value, one in each line."""
    grid = Table.grid(padding=(0, GAP, 0, 0))
    grid.add_column(style="bold")
    grid.add_column(overflow="fold")
    for name, value in facts:
        grid.add_row(name, _cell(value))
    output.put_rendered(render(grid, sys.stdout))

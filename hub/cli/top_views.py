"""The tabs of `hub top`: their columns, sorting, filter and drawing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from hub.cli import output, tables
from hub.cli.answers import Rows, because, holder_name, run_name
from hub.cli.connection import HubApi, Row, members

ROWS: Final = 500  # rows in one call
LABELS: Final = 20  # labels of the queue in one call
ALL: Final = "all"
_STYLES: Final = tables.STATE_STYLES | {
    "running": "green", "pending": "yellow", "claimed": "cyan", "failed": "red", "dead": "red",
}  # fmt: skip
_LEVELS: Final = {"critical": "bold white on red", "warning": "bold black on yellow"}
HELP: Final = "1-5 pane  0 all  s sort  r turn round  / filter  ↑↓ scroll  q quit"


class Column(NamedTuple):
    """A column: its title, the member that it shows of a row, or a function of the row, and how the value is shown.

    `number` aligns it to the right; with `shrinks` it becomes narrower when the terminal is too narrow.
    """

    title: str
    cell: str | Callable[[Mapping[str, Any]], Any]
    text: Callable[[Any], str] = str
    number: bool = False
    shrinks: bool = False

    def value(self, row: Mapping[str, Any]) -> Any:
        """Return the value of a row, by which the rows are sorted."""
        return self.cell(row) if callable(self.cell) else row.get(self.cell)


@dataclass(frozen=True)
class Tab:
    """A list of `hub top`: the function that fetches it, its columns, and the column and direction of its order."""

    name: str
    ask: Callable[[HubApi], Awaitable[Rows]]
    columns: Sequence[Column]
    by: int = 0
    turned: bool = False


@dataclass
class Snapshot:
    """The last fetch: the overview, and the rows of each tab with their total."""

    overview: Row = field(default_factory=dict)
    rows: dict[str, Rows] = field(default_factory=dict)


def _name(title: str, member: str) -> Column:
    return Column(title, member, shrinks=True)


def _number(title: str, member: str, text: Callable[[Any], str] = str) -> Column:
    return Column(title, member, text, number=True)


def _service(row: Mapping[str, Any]) -> str:
    state, service = str(row.get("state")), str(row.get("service", "lending"))
    return state if service == "lending" else f"{state}, {service}"


async def _pools(hub: HubApi) -> Rows:
    return members(await hub.get("pools", limit=ROWS), "pools")


async def _nodes(hub: HubApi) -> Rows:
    return members(await hub.get("nodes", detail=1, limit=ROWS), "nodes")


async def _queue(hub: HubApi) -> Rows:
    queue = await hub.get("queue", limit=LABELS, tickets=ROWS)
    _, lines = members(queue, "labels")
    rows = [{**ticket, "label": line.get("label")} for line in lines for ticket in line.get("tickets") or ()]
    return int(queue.get("waiting") or 0), rows


async def _leases(hub: HubApi) -> Rows:
    return members(await hub.get("sessions", limit=ROWS), "leases")


async def _tasks(hub: HubApi) -> Rows:
    total, rows = 0, list[Row]()
    for status in ("running", "claimed", "pending", "dead"):
        some, tasks = members(await hub.get("console", "tasks", status=status, limit=ROWS // 4), "tasks")
        total, rows = total + some, rows + [{**row, "status": status} for row in tasks]
    return total, rows


TABS: Final = (
    Tab("pools", _pools, (
        _name("POOL", "label"), _number("SLOTS", "total"), _number("FREE", "available"), _number("LENT", "borrowed"),
        _number("HELD BACK", "heldBack"), Column("BECAUSE", because, shrinks=True),
    )),
    Tab("nodes", _nodes, (
        _name("NODE", "nodeId"), Column("STATE", _service), _number("SLOTS", "slots"), _number("LENT", "lent"),
        _number("LAST BEAT", "sinceBeatMs", output.since),
    )),
    Tab("queue", _queue, (
        _name("LABEL", "label"), _number("POSITION", "position"), _name("TICKET", "ticket"),
        Column("HOLDER", holder_name, shrinks=True), Column("RUN", run_name, shrinks=True),
        _number("PRIORITY", "priority"), _number("ESTIMATE", "estimatedWaitSeconds", output.duration),
    )),
    Tab("tasks", _tasks, (
        _name("TASK", "id"), _name("JOB", "jobName"), Column("STATUS", "status"),
        Column("SUBMITTED", "createdAt", output.when), _number("ATTEMPT", "attempt"), _name("ERROR", "error"),
    ), by=3),
    Tab("leases", _leases, (
        _name("SLOT", "slotId"), _name("POOL", "pool"), Column("HOLDER", holder_name, shrinks=True),
        Column("RUN", run_name, shrinks=True), _number("TIME LEFT", "secondsLeft", output.duration),
    ), by=4),
)  # fmt: skip


@dataclass
class View:
    """The user's choice: tab, order, filter and scroll position."""

    tab: str = "pools"
    sort: dict[str, tuple[int, bool]] = field(default_factory=lambda: {p.name: (p.by, p.turned) for p in TABS})
    text: str = ""
    typing: bool = False  # the filter is being typed
    first: int = 0  # the row at the top

    @property
    def shown(self) -> list[Tab]:
        """Return the tabs to draw."""
        return [tab for tab in TABS if self.tab in (tab.name, ALL)]

    def choose(self, tab: str) -> None:
        """Show another tab, from its first row."""
        self.tab, self.first = tab, 0

    def next_column(self) -> None:
        """Sort the shown tabs by their next column."""
        for tab in self.shown:
            by, turned = self.sort[tab.name]
            self.sort[tab.name] = (by + 1) % len(tab.columns), turned

    def turn_round(self) -> None:
        """Reverse the order in which the rows of each shown tab are sorted."""
        for tab in self.shown:
            by, turned = self.sort[tab.name]
            self.sort[tab.name] = by, not turned


class Frame:
    """The content of the whole screen, made for its number of lines."""

    def __init__(self, view: View, seen: Snapshot, status: str, trouble: str = "") -> None:
        self._view, self._seen, self._status, self._trouble = view, seen, status, trouble

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width, height = options.max_width, options.height or console.height
        head = self._head(width)
        foot = Text(f"filter: {self._view.text}▏" if self._view.typing else HELP, style="dim", no_wrap=True)
        tabs = self._view.shown
        lines_each = max(3, (height - len(head) - 1) // len(tabs))
        parts = [*head, *(part for tab in tabs for part in self._pane(tab, width, lines_each))]
        lines = console.render_lines(Group(*parts), options.update(height=None), pad=False)[: height - 1]
        lines += [[] for _ in range(height - 1 - len(lines))]
        for line in (*lines, *console.render_lines(foot, options.update(height=1), pad=False)[:1]):
            yield from Segment.adjust_line_length(line, width)
            yield Segment.line()

    def _head(self, width: int) -> list[Text]:
        overview = self._seen.overview
        troubles = overview.get("troubles") or []
        worst = str(troubles[0].get("level")) if troubles else ""
        lines = [
            Text(
                _cut(str(overview.get("sentence") or "Nothing was seen yet."), width), style=_LEVELS.get(worst, "bold")
            )
        ]
        if self._trouble:
            lines.append(Text(_cut(self._trouble, width), style="bold red"))
        lines += [
            Text(_cut(f"{trouble.get('level')}: {trouble.get('title')}. {trouble.get('text')}", width), style="yellow")
            for trouble in troubles[:3]
        ]
        tabs = Text(no_wrap=True)
        for number, tab in enumerate(TABS, 1):
            count = _count(self._seen, tab)
            style = "reverse" if tab in self._view.shown else "dim"
            tabs.append(f" {number} {tab.name} {count} ", style=style)
        tabs.append("  " + self._status, style="dim")
        tabs.truncate(width)
        return [*lines, tabs]

    def _pane(self, tab: Tab, width: int, height: int) -> list[Any]:
        rows_to_show = arranged(tab, self._view, self._seen)
        if not rows_to_show:
            why = "Nothing fits the filter." if self._view.text else f"No {tab.name}."
            return [Text(why if tab.name in self._seen.rows else "…", style="dim"), *[Text("")] * (height - 1)]
        room = height - 1
        first = min(self._view.first, max(0, len(rows_to_show) - room))
        rows = [[_cell(column, row) for column in tab.columns] for row in rows_to_show[first : first + room]]
        by, turned = self._view.sort[tab.name]
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), width=width, header_style="bold")
        for place, column in enumerate(tab.columns):
            mark = ("▼" if turned else "▲") if place == by else ""
            justify = "right" if column.number else "left"
            # When there is no room, Rich makes columns narrower that may wrap; their cells are cut instead of wrapped.
            table.add_column(Text(column.title + mark, no_wrap=True), justify=justify, no_wrap=not column.shrinks)  # type: ignore[arg-type]
        for row in rows:
            table.add_row(*row)
        return [table, *[Text("")] * (room - len(rows))]


def arranged(tab: Tab, view: View, seen: Snapshot) -> list[Row]:
    """Return the rows of a tab that fit the filter, sorted; rows without a value come last."""
    rows = seen.rows.get(tab.name, (0, []))[1]
    wanted = view.text.lower()
    fitting = [row for row in rows if wanted in " ".join(_text_of(column, row) for column in tab.columns).lower()]
    by, turned = view.sort[tab.name]
    column = tab.columns[by]
    known = [row for row in fitting if column.value(row) not in (None, "")]
    unknown = [row for row in fitting if column.value(row) in (None, "")]
    return sorted(known, key=lambda row: _rank(column.value(row)), reverse=turned) + unknown


def _rank(value: Any) -> tuple[int, float, str]:
    is_number = isinstance(value, int | float)
    return (0, float(value), "") if is_number else (1, 0.0, str(value).lower())


def _text_of(column: Column, row: Mapping[str, Any]) -> str:
    value = column.value(row)
    return "-" if value is None or value == "" else output.one_line(column.text(value))


def _cell(column: Column, row: Mapping[str, Any]) -> Text:
    text = _text_of(column, row)
    style = "dim" if text == "-" else _STYLES.get(text.partition(",")[0], "")
    return Text(text, style, no_wrap=True, overflow="ellipsis")


def _count(seen: Snapshot, tab: Tab) -> str:
    """Return the number of rows of a tab, as `500 of 1,200` when only some of them were fetched; `…` before that."""
    if tab.name not in seen.rows:
        return "…"
    total, rows = seen.rows[tab.name]
    return f"{total:,}" if total <= len(rows) else f"{len(rows):,} of {total:,}"


def _cut(text: str, width: int) -> str:
    text = output.one_line(text)
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"

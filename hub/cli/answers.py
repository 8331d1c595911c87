"""The results of commands: each is printed as one JSON document with `--json`, else as text."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from hub.cli import global_options, output, tables
from hub.cli.all_realms import each_realm, silent_realms
from hub.cli.connection import HubApi
from hub.cli.inputs import Usage

Row = dict[str, Any]
Rows = tuple[int, list[Row]]  # the total number, and the rows that were asked for


@dataclass(frozen=True)
class CommandAnswer:
    """The result of a command: a document for `--json`, a text or a function that prints it, notes, the exit code."""

    document: Any
    shown: str | Callable[[], object] | None  # None: the command has printed it already
    notes: Sequence[str] = ()
    code: int = 0

    def put(self, *, as_json: bool) -> int:
        """Print the result on stdout and the notes on stderr; return the exit code."""
        if as_json:
            output.put_json(self.document)
        elif isinstance(self.shown, str):
            output.put(self.shown)
        elif self.shown is not None:
            self.shown()
        for sentence in self.notes:
            output.note(sentence)
        return self.code


def facts(document: Any, names_and_values: Iterable[tuple[str, Any]]) -> CommandAnswer:
    """Return the answer that shows one thing, with a fact in each line."""
    return CommandAnswer(document, lambda: tables.put_facts(names_and_values))


@dataclass(frozen=True)
class Listing:
    """The form of a list: its columns, the cells of a row, its member `noun` in the document, its name in sentences."""

    noun: str
    columns: tuple[str, ...]
    row: Callable[[Row], Iterable[Any]]
    numbers: tuple[str, ...] = ()
    expendable: tuple[str, ...] = ()
    called: str = ""

    def answer(self, rows: Rows) -> CommandAnswer:
        """Return the answer that shows these rows as a table, with a note when there are more."""
        total, some = rows
        called = self.called or self.noun

        def show() -> None:
            if some:
                self._put_table(self.columns, [tuple(self.row(row)) for row in some])
            else:
                output.put(f"No {called}.")

        is_cut = total > len(some) > 0
        notes = [f"{len(some)} of {total} {called} shown; --limit shows more."] if is_cut else []
        return CommandAnswer({"total": total, self.noun: some}, show, notes)

    async def of_realms(self, hub: HubApi, look: Callable[[HubApi], Awaitable[Rows]]) -> CommandAnswer:
        """Return the answer that shows the rows `look` finds in the hub, or with `--realm '*'` in each realm."""
        if global_options.realm() != global_options.ALL:
            return self.answer(await look(hub))
        parts = await each_realm(hub, look)
        lists = [dict(zip(("total", self.noun), part.answer or (None, []), strict=True)) for part in parts]

        def show() -> None:
            rows = [(part.realm, *self.row(row)) for part in parts if part.answer for row in part.answer[1]]
            self._put_table(("REALM", *self.columns), rows)
            for part in parts:
                if part.answer and part.answer[0] > len(part.answer[1]):
                    cut = f"{len(part.answer[1])} of {part.answer[0]} {self.noun}"
                    output.note(f"{cut} of {part.realm} shown; --limit shows more.")

        document = {"realms": [part.facts() | rows for part, rows in zip(parts, lists, strict=True)]}
        return CommandAnswer(document, show, *silent_realms(parts))

    def one(self, document: Row) -> CommandAnswer:
        """Return the answer that shows one row of the list, with a fact in each line."""
        return facts(document, zip(self.columns, self.row(document), strict=True))

    def _put_table(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        tables.put_table(columns, rows, numbers=self.numbers, expendable=self.expendable)


def check_realms(*given: tuple[str, object]) -> None:
    """Raise `Usage` when a value is given together with `--realm '*'`; `given` are pairs of name and value."""
    names = [name for name, value in given if value is not None]
    if names and global_options.realm() == global_options.ALL:
        raise Usage(f"--realm '*' lists what all realms have: leave {' and '.join(names)} out, or name the realm.")


def check_one_of(*given: tuple[str, object]) -> None:
    """Raise `Usage` when more than one of these options has a value; `given` are pairs of name and value."""
    names = [name for name, value in given if value is not None]
    if len(names) > 1:
        raise Usage(f"{' and '.join(names)} exclude each other.")

"""What a command has found: printed as one JSON document with `--json`, else as text."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from hub.cli import global_options, output, tables
from hub.cli.all_realms import each_realm, silent_realms
from hub.cli.connection import HubApi
from hub.cli.inputs import Usage

Row = dict[str, Any]
Rows = tuple[int, list[Row]]  # how many there are, and those that were asked for


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
    """Return the answer that shows one thing, a fact a line."""
    return CommandAnswer(document, lambda: tables.put_facts(names_and_values))


@dataclass(frozen=True)
class Listing:
    """The way a list is shown: `noun` in its document, `called` in sentences, and its columns."""

    noun: str
    columns: tuple[str, ...]
    row: Callable[[Row], Iterable[Any]]
    numbers: tuple[str, ...] = ()
    expendable: tuple[str, ...] = ()
    called: str = ""

    def answer(self, rows: Rows) -> CommandAnswer:
        """Return the answer that shows these rows."""
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
        """Return the answer that shows what `look` finds in the hub; with `--realm '*'` in each of its realms."""
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
        """Return the answer that shows one member of the list, a fact a line."""
        return facts(document, zip(self.columns, self.row(document), strict=True))

    def _put_table(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        tables.put_table(columns, rows, numbers=self.numbers, expendable=self.expendable)


def check_realms(*given: tuple[str, object]) -> None:
    """Refuse what names one thing together with `--realm '*'`, which lists those of all realms."""
    names = [name for name, value in given if value is not None]
    if names and global_options.realm() == global_options.ALL:
        raise Usage(f"--realm '*' lists what all realms have: leave {' and '.join(names)} out, or name the realm.")


def check_one_of(*given: tuple[str, object]) -> None:
    """Refuse options that exclude each other."""
    names = [name for name, value in given if value is not None]
    if len(names) > 1:
        raise Usage(f"{' and '.join(names)} exclude each other.")

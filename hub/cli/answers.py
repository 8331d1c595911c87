"""The results of commands: each is printed as one JSON document with `--json`, else as text.

A question to all realms goes to them at the same time; when one does not answer, only its own part is empty.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from hub.cli import global_options, output, tables
from hub.cli.child import interruptible
from hub.cli.connection import PAGE, HubApi, Row, members
from hub.client.slot_variables import plain
from hub.errors import HubError

T = TypeVar("T")
Rows = tuple[int, list[Row]]  # the total number, and the rows that were asked for
# Title -> the member of a row that is shown under it, or a function that makes the cell of the row.
Columns = Mapping[str, str | Callable[[Row], Any]]
HOLDERS = {"node": "its node", "operator": "an operator"}


def cells(columns: Columns, row: Row) -> list[Any]:
    """Return the cells of a row, in the order of the columns."""
    return [cell(row) if callable(cell) else row.get(cell) for cell in columns.values()]


def time_of(member: str) -> Callable[[Row], str]:
    """Return a cell that shows the time in this member, as `output.when` does."""
    return lambda row: output.when(row.get(member))


def duration_of(member: str) -> Callable[[Row], str]:
    """Return a cell that shows the seconds in this member, as `output.duration` does."""
    return lambda row: output.duration(row.get(member))


def holder_name(row: Mapping[str, Any]) -> str | None:
    """Return the holder of a lease or a ticket: its user, where a token borrowed, and the name that it gave itself."""
    holder = row.get("holder") or {}
    user, name = holder.get("user"), holder.get("name")
    return f"{user} ({name})" if user and name and not str(name).startswith(f"{user}@") else name or user


def run_name(row: Mapping[str, Any]) -> str | None:
    """Return the name of the run of a lease or a ticket, where it has one, else its id."""
    return row.get("runName") or row.get("runId")


def held(slot: Mapping[str, Any]) -> str | None:
    """Return who holds a slot back and why, or None."""
    return f"by {HOLDERS[slot['heldBy']]}: {slot['held']}" if slot.get("held") else None


def attributes(slot: Mapping[str, Any]) -> str:
    """Return the attributes of a slot as `vram=80 features=nvlink,ecc`; empty for one without."""
    facts = slot.get("attributes") or {}
    return " ".join(f"{name}={plain(value)}" for name, value in facts.items())


def warm(slot: Mapping[str, Any]) -> str:
    """Return the keys of what is warm in a slot, with blanks between them."""
    return " ".join(slot.get("warm") or ())


def choices(ticket: Mapping[str, Any]) -> str:
    """Return what a ticket wants: `gpu where vram >= 40, or gpu:h100`; empty where its label says it all."""
    each = ticket.get("anyOf") or ()
    return ", or ".join(f"{one['label']} where {one['where']}" if one.get("where") else one["label"] for one in each)


def parts(ticket: Mapping[str, Any]) -> str:
    """Return what a bundle wants: `4 gpu where vram >= 40, and 1 cpu:large, on one node`; empty for one slot."""
    each = [
        f"{part['count']} {part['label']}{' where ' * bool(part['where'])}{part['where']}"
        for part in ticket.get("parts") or ()
    ]
    return ", and ".join(each) + ", on one node" * bool(ticket.get("sameNode"))


def set_aside(ticket: Mapping[str, Any]) -> str | None:
    """Return how many slots are set aside for a bundle that waits, as `6 of 8`; None where it is not its turn."""
    wanted = sum(part["count"] for part in ticket.get("parts") or ())
    return f"{ticket.get('setAside')} of {wanted}" if ticket.get("reserving") else None


def ends_by(lease: Mapping[str, Any]) -> str | None:
    """Return by which rule of its pool a lease ends, and when, or None."""
    seconds = lease.get("endsInSeconds")
    return None if seconds is None else f"{lease.get('endsBy')}, in {output.duration(seconds)}"


def because(pool: Mapping[str, Any]) -> str:
    """Return why slots of a pool are held back: `2 unwell, 1 draining`; empty when none is."""
    return ", ".join(f"{number} {kind}" for kind, number in (pool.get("heldBackBy") or {}).items())


def json_of(member: str) -> Callable[[Row], str | None]:
    """Return a cell that shows this member as JSON."""
    return lambda row: None if row.get(member) is None else json.dumps(row[member], ensure_ascii=False)


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


def facts(document: Row, columns: Columns, *, only_known: bool = False) -> CommandAnswer:
    """Return the answer that shows one thing, with a fact in each line; `only_known` leaves out facts without value."""
    every = zip(columns, cells(columns, document), strict=True)
    shown = [(name, value) for name, value in every if not only_known or value not in (None, "")]
    return CommandAnswer(document, lambda: tables.put_facts(shown))


async def refreshed(look: Callable[[], Awaitable[CommandAnswer]], every_s: float, *, as_json: bool) -> None:
    """Print the answer of `look` again and again until a signal: in place on a terminal, as a line with `as_json`."""
    with interruptible():
        while True:
            answer = await look()
            if as_json:
                output.put(output.json_text(answer.document))
            else:
                tables.begin_picture(f"every {output.duration(every_s)}, until Ctrl-C")
                answer.put(as_json=False)
            await asyncio.sleep(every_s)


@dataclass(frozen=True)
class Listing:
    """The form of a list: its member `noun` in documents, its columns, and its name in sentences.

    The first column is the member that identifies a row.
    """

    noun: str
    columns: Columns
    numbers: tuple[str, ...] = ()
    expendable: tuple[str, ...] = ()
    rare: tuple[str, ...] = ()
    called: str = ""

    async def ask(self, hub: HubApi, limit: int, *path: str, **query: Any) -> Rows:
        """Return the total of the list at this path, and at most `limit` of its rows."""
        page = await self.whole(hub, limit, *path, **query)
        return page["total"], page[self.noun]

    async def whole(self, hub: HubApi, limit: int, *path: str, **query: Any) -> Row:
        """Return the last page of the list at this path, with the rows of all pages, but at most `limit`."""
        identity = str(next(iter(self.columns.values())))
        rows_by_id: dict[str, Row] = {}  # pages may repeat rows when the list changes meanwhile
        offset = 0
        while True:
            page = await hub.get(*path, limit=min(PAGE, limit), offset=offset, **query)
            total, rows = members(page, "items" if "items" in page else self.noun)
            rows_by_id |= {str(row.get(identity)): row for row in rows}
            offset += len(rows)
            if not rows or offset >= total or len(rows_by_id) >= limit:
                return {**page, "total": total, self.noun: list(rows_by_id.values())[:limit]}

    def answer(self, rows: Rows) -> CommandAnswer:
        """Return the answer that shows these rows as a table, with a note when there are more."""
        total, some = rows
        called = self.called or self.noun

        def show() -> None:
            if some:
                self.put(some)
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
            rows = [[part.realm, *cells(self.columns, row)] for part in parts for row in (part.answer or (0, []))[1]]
            self._put_table(("REALM", *self.columns), rows)
            for part in parts:
                if part.answer and part.answer[0] > len(part.answer[1]):
                    cut = f"{len(part.answer[1])} of {part.answer[0]} {self.noun}"
                    output.note(f"{cut} of {part.realm} shown; --limit shows more.")

        document = {"realms": [part.facts() | rows for part, rows in zip(parts, lists, strict=True)]}
        return CommandAnswer(document, show, *silent_realms(parts))

    def one(self, document: Row) -> CommandAnswer:
        """Return the answer that shows one row of the list, with a fact in each line."""
        return facts(document, self.columns)

    def put(self, rows: Iterable[Row]) -> None:
        """Print these rows as a table."""
        self._put_table(self.columns, [cells(self.columns, row) for row in rows])

    def _put_table(self, columns: Iterable[str], rows: Sequence[Sequence[Any]]) -> None:
        tables.put_table(columns, rows, numbers=self.numbers, expendable=self.expendable, rare=self.rare)


@dataclass(frozen=True)
class RealmPart(Generic[T]):
    """The answer of one realm, or None with the reason in `error`."""

    realm: str
    as_of: str | None  # when the store of the realm answered last
    error: str | None
    answer: T | None

    def facts(self) -> Row:
        """Return the members of the part in the output of `--json`, except those of the answer."""
        return {"realm": self.realm, "asOf": self.as_of, "error": self.error}


async def each_realm(hub: HubApi, look: Callable[[HubApi], Awaitable[T]]) -> list[RealmPart[T]]:
    """Call `look` for each realm of a hub, and return the results in the order of the hub's list of realms."""

    async def part(realm: Row) -> RealmPart[T]:
        name, error, answer = str(realm["name"]), realm["error"], None
        if realm["state"] == "open":
            try:
                answer = await look(hub.within(name))
            except HubError as refusal:
                error = str(refusal)
        return RealmPart(name, realm["asOf"], error, answer)

    return await asyncio.gather(*map(part, (await hub.get("realms"))["realms"]))


def silent_realms(parts: list[RealmPart[T]]) -> tuple[list[str], int]:
    """Return a note for each realm without an answer, and the exit code: 1 if there is such a realm, else 0."""
    silent = [part for part in parts if part.answer is None]
    return [f"realm {part.realm} is not shown: {part.error}" for part in silent], 1 if silent else 0

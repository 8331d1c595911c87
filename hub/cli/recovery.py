"""`hub recovery`: show, reset and watch records that are stuck in the databases around the hub."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hub.cli import output, tables
from hub.cli.child import Signals
from hub.cli.command import command
from hub.cli.inputs import YEAR_S, Usage, shown, span
from hub.cli.options import AsJson, Limit
from hub.cli.progress import Bar, is_watched
from hub.cli.recovery_forget import forget
from hub.cli.recovery_report import report
from hub.cli.recovery_sources import Chosen, Opened, SourceTrouble, choose
from hub.errors import HubError

if TYPE_CHECKING:
    from hub.recovery.models import Source, Stuck
    from hub.recovery.records import Records

_COLUMNS = ("SOURCE", "ID", "STATUS", "UPDATED", "AGE", "RESETS")
_WATCHED = ("SOURCE", "STUCK", "OLDEST", "THRESHOLD", "TROUBLE")
_PAUSE_S = 5.0
_PREVIEW = 1000  # the most records that a dry run shows

app = typer.Typer(help="Show records that are stuck in the databases around the hub, and reset them.")

app.command("forget")(forget)
app.command("report")(report)

File = Annotated[
    Path | None,
    typer.Option(
        "--file", metavar="PATH", help="A TOML file of sources. Default: HUB_RECOVERY_FILE, then HUB_RECOVERY_SOURCES."
    ),
]
Sources = Annotated[
    list[str] | None,
    typer.Option("--source", metavar="NAME", help="Only this source. Repeatable. Default: all sources."),
]


@app.command("ls")
@command()
def listed(
    source: Sources = None,
    older_than: Annotated[
        float | None,
        typer.Option(
            parser=span(0.1, YEAR_S, "0.1s to 366d"),
            metavar="TIME",
            help="Show only records stuck for longer than this: 90m, 2h, 1d. Default: the threshold of the source.",
        ),
    ] = None,
    limit: Limit = 100,
    file: File = None,
    as_json: AsJson = False,
) -> Coroutine[Any, Any, int]:
    """Show the records that a reset would touch, the longest stuck first. Exit code 1 when a source cannot be read."""
    return _list(choose(file, source), older_than, limit, as_json)


@app.command("reset")
@command()
def reset(
    source: Annotated[str, typer.Option("--source", metavar="NAME", help="The name of the source.")],
    ids: Annotated[
        list[str] | None,
        typer.Option("--id", metavar="ID", help="Reset only this record. Repeatable. Default: all stuck records."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be reset, and change nothing.")] = False,
    file: File = None,
    as_json: AsJson = False,
) -> Coroutine[Any, Any, int]:
    """Reset the stuck records of a source, batch by batch. Exit code 1 when a record was not stuck, or still is."""
    return _reset(choose(file, [source]), ids, as_json, dry_run=dry_run)


@app.command("watch")
@command()
def watch(
    source: Sources = None,
    interval: Annotated[
        float | None,
        typer.Option(
            parser=span(0.1, 86_400, "0.1s to 1d"), metavar="TIME", help="The pause between two looks. Default: 5s."
        ),
    ] = None,
    file: File = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a line of JSON for each look.")] = False,
) -> Coroutine[Any, Any, None]:
    """Show how many records of each source are stuck, again and again until Ctrl-C."""
    return _watch(choose(file, source), _PAUSE_S if interval is None else interval, as_json)


@app.command("check")
@command()
def check(file: File = None, as_json: AsJson = False) -> Coroutine[Any, Any, int]:
    """Check every source against its declaration, and say in one sentence what is wrong with it.

    Exit codes: 0 all is well, 1 the records of a source cannot be reached, 2 a declaration does not fit them.
    """
    return _check(choose(file, None), as_json)


async def _list(chosen: Chosen, older_than_s: float | None, limit: int, as_json: bool) -> int:
    for source in chosen.sources:
        if older_than_s is not None and older_than_s < source.threshold_s:
            least = output.duration(source.threshold_s)
            raise Usage(
                f"--older-than is below the threshold of {source.name}, {least}: younger records are not stuck."
            )
    async with Opened(chosen) as opened:
        answers = await opened.ask(lambda records: records.look(limit + 1, older_than_s))
        stuck_records = sorted(
            ((source, stuck) for source, several in answers.answered for stuck in several),
            key=lambda each: -each[1].age_s,
        )
        total: int | None = len(stuck_records)
        if len(stuck_records) > limit:
            total = None
            if older_than_s is None:
                total = sum(count for _, count in (await opened.ask(lambda records: records.count())).answered)
    _show(stuck_records[:limit], total, answers.troubles, as_json)
    answers.tell()
    if len(stuck_records) > limit:
        which = f"{limit} of {total}" if total else f"the first {limit} of the"
        output.note(f"{which} stuck records shown; --limit shows more.")
    return answers.code


def _show(
    records_shown: Sequence[tuple[Source, Stuck]],
    total: int | None,
    troubles: Sequence[SourceTrouble],
    as_json: bool,
    **facts: Any,
) -> None:
    if as_json:
        records = [_document(source, stuck) for source, stuck in records_shown]
        output.put_json({**facts, "total": total, "records": records, "errors": [_told(each) for each in troubles]})
    elif records_shown:
        rows = [_row(source, stuck) for source, stuck in records_shown]
        tables.put_table(_COLUMNS, rows, numbers=("RESETS",), expendable=("RESETS", "STATUS"))
    elif not troubles:
        output.put("No stuck records.")


def _row(source: Source, stuck: Stuck) -> tuple[Any, ...]:
    when = stuck.updated_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return source.name, stuck.id, stuck.status, when, output.duration(stuck.age_s), stuck.attempts


def _document(source: Source, stuck: Stuck) -> dict[str, Any]:
    return {
        "source": source.name,
        "id": stuck.id,
        "status": stuck.status,
        "updatedAt": _time(stuck.updated_at),
        "ageSeconds": round(stuck.age_s, 3),
        "resets": stuck.attempts,
    }


def _told(trouble: SourceTrouble) -> dict[str, Any]:
    return {"source": trouble.source, "state": trouble.state, "why": trouble.why}


def _time(when: datetime) -> str:
    return when.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


async def _reset(chosen: Chosen, ids: Sequence[str] | None, as_json: bool, *, dry_run: bool) -> int:
    async with Opened(chosen) as opened:
        if dry_run:
            return await _preview(opened, chosen, ids, as_json)
        work = _Work(opened, ids)
        answers = await opened.ask(work.do)
    answers.tell()
    name = _name(chosen)
    if as_json:
        troubles = [_told(each) for each in answers.troubles]
        output.put_json({"source": name, "dryRun": False, **work.facts(), "errors": troubles})
    elif not answers.answered and not work.began:
        return answers.code
    else:
        output.put(work.sentence(name))
        for each in work.failed:
            output.put(output.one_line(f"  failed: {each}"))
    return max(answers.code, work.tell(name, refused=bool(answers.troubles)))


class _Work:
    """A reset of records. It keeps its results so far, for an interruption or the loss of the database."""

    def __init__(self, opened: Opened, ids: Sequence[str] | None) -> None:
        self._opened = opened
        self._ids = ids
        self.began = False
        self.interrupted = False
        self.reset: list[str] = []
        self.failed: list[str] = []
        self.not_stuck: list[str] = []
        self.held: int | None = None  # the number of records that stay stuck; None: not known

    async def do(self, records: Records) -> None:
        """Reset the records of the given ids, or all stuck ones, batch by batch, and count those that stay stuck."""
        task = asyncio.current_task()
        assert task is not None
        with Signals(lambda _: task.cancel()):
            try:
                await self._opened.write_parked(records)
                if self._ids is None:
                    await self._all(records)
                else:
                    await self._these(records, self._ids)
            except asyncio.CancelledError:
                self.interrupted = True

    async def _all(self, records: Records) -> None:
        try:
            with Bar("reset", await records.count() if is_watched() else None) as bar:
                while await self._batch(records, None):
                    bar.to(len(self.reset) + len(self.failed))
        except HubError:
            with suppress(HubError):  # the error of the reset is raised, not one of the count
                self.held = await records.count()
            raise
        self.held = await records.count()

    async def _these(self, records: Records, ids: Sequence[str]) -> None:
        stuck_records, self.not_stuck = await _of_ids(records, ids)
        names = [stuck.id for stuck in stuck_records]
        size = records.source.batch_size
        for start in range(0, len(names), size):
            await self._batch(records, names[start : start + size])
        done = {*self.reset, *self.failed}
        still = [name for name in names if name not in done and await records.look(1, ids=[name])]
        self.not_stuck += [
            name for name in names if name not in done and name not in still
        ]  # reset by another process meanwhile
        self.held = len(still)

    async def _batch(self, records: Records, ids: Sequence[str] | None) -> int:
        done = await records.reset(ids)
        self.began = True
        self.reset += done.reset
        self.failed += done.failed
        return done.count

    def facts(self) -> dict[str, Any]:
        """Return the ids that were reset, failed or not stuck, and the number still stuck, for `--json`."""
        return {"reset": self.reset, "failed": self.failed, "notStuck": self.not_stuck, "stillStuck": self.held}

    def sentence(self, name: str) -> str:
        """Return a sentence with the numbers of records that were reset and failed."""
        if not self.reset and not self.failed:
            return f"{name}: nothing was reset."
        return f"{name}: {output.plural(len(self.reset), 'record')} reset, {len(self.failed)} failed for good."

    def tell(self, name: str, *, refused: bool) -> int:
        """Print notes on records that were not reset; return the exit code. `refused`: the reason is noted already."""
        if self.not_stuck:
            output.note(f"not stuck in {name}, and left alone: {', '.join(map(shown, self.not_stuck))}.")
        if self.held:
            some = "1 record is" if self.held == 1 else f"{self.held} records are"
            why = "" if refused else ": a record is locked, or became due only now"
            output.note(f"{some} stuck in {name} still{why}.")
        if self.interrupted:
            output.note("interrupted; what was reset stays reset.")
        return 1 if self.not_stuck or self.held or self.interrupted else 0


async def _of_ids(records: Records, ids: Sequence[str]) -> tuple[list[Stuck], list[str]]:
    """Return the stuck records of these ids, and the other ids; asks for each alone, as an id has several spellings."""
    stuck_by_id: dict[str, Stuck] = {}
    others = []
    for each in dict.fromkeys(ids):
        try:
            stuck = await records.look(1, ids=[each])
        except ValueError as error:
            raise Usage(f"--id {shown(each)}: {error}.") from None
        if not stuck:
            others.append(each)
        stuck_by_id |= {one.id: one for one in stuck}
    return list(stuck_by_id.values()), others


async def _preview(opened: Opened, chosen: Chosen, ids: Sequence[str] | None, as_json: bool) -> int:
    async def look(records: Records) -> tuple[list[Stuck], list[str], int]:
        if ids is None:
            return await records.look(_PREVIEW), [], await records.count()
        shown_records, others = await _of_ids(records, ids)
        return shown_records, others, len(shown_records)

    answers = await opened.ask(look)
    answers.tell()
    name = _name(chosen)
    if not answers.answered:
        if as_json:
            _show([], None, answers.troubles, as_json, source=name, dryRun=True, notStuck=[])
        return answers.code
    ((source, (shown_records, others, total)),) = answers.answered
    pairs = [(source, each) for each in shown_records]
    _show(pairs, total, answers.troubles, as_json, source=name, dryRun=True, notStuck=others)
    if others:
        output.note(f"not stuck in {name}: {', '.join(map(shown, others))}.")
    if total > len(shown_records):
        output.note(f"{len(shown_records)} of {total} stuck records shown.")
    if not as_json:
        output.put("Nothing was changed.")
    return 1 if others else answers.code


def _name(chosen: Chosen) -> str:
    """Return the name of the only source, also when its declaration was refused."""
    return chosen.sources[0].name if chosen.sources else str(chosen.troubles[0].source)


async def _watch(chosen: Chosen, interval_s: float, as_json: bool) -> None:
    task = asyncio.current_task()
    assert task is not None
    with Signals(lambda _: task.cancel()):
        try:
            async with Opened(chosen) as opened:
                while True:
                    _put_round(await _look_around(opened), interval_s, as_json)
                    await asyncio.sleep(interval_s)
        except asyncio.CancelledError:
            return


async def _look_around(opened: Opened) -> list[dict[str, Any]]:
    async def look(records: Records) -> tuple[int, float | None]:
        first = await records.look(1)
        return await records.count() if first else 0, first[0].age_s if first else None

    answers = await opened.ask(look)
    rows = [
        {
            "source": source.name,
            "stuck": count,
            "oldestSeconds": None if age_s is None else round(age_s, 3),
            "thresholdSeconds": source.threshold_s,
            "trouble": None,
        }
        for source, (count, age_s) in answers.answered
    ]
    return rows + [
        {"source": each.source, "stuck": None, "oldestSeconds": None, "thresholdSeconds": None, "trouble": each.why}
        for each in answers.troubles
    ]


def _put_round(rows: list[dict[str, Any]], interval_s: float, as_json: bool) -> None:
    if as_json:
        output.put(output.json_text({"at": _time(datetime.now(UTC)), "sources": rows}))
        return
    tables.begin_picture(f"every {output.duration(interval_s)}, until Ctrl-C")
    cells = [
        (
            row["source"], row["stuck"], output.duration(row["oldestSeconds"]),
            output.duration(row["thresholdSeconds"]), row["trouble"],
        )
        for row in rows
    ]  # fmt: skip
    tables.put_table(_WATCHED, cells, numbers=("STUCK", "OLDEST", "THRESHOLD"))
    if not sys.stdout.isatty():
        output.put("")


async def _check(chosen: Chosen, as_json: bool) -> int:
    for sentence in chosen.settings.notes:
        if "ZOMBIE_" in sentence or "HUB_RECOVERY_" in sentence:
            output.note(f"{sentence}.")
    async with Opened(chosen) as opened:
        answers = await opened.ask(lambda records: records.check())
    if as_json:
        sound = [{"source": source.name, "state": "ok", "why": None} for source, _ in answers.answered]
        output.put_json({"ok": not answers.troubles, "sources": sound + [_told(each) for each in answers.troubles]})
    else:
        for source, _ in answers.answered:
            output.put(f"{source.name} ok")
        if not answers.answered and not answers.troubles:
            output.put("No sources are declared.")
    answers.tell()
    return 2 if any(each.state == "refused" for each in answers.troubles) else answers.code

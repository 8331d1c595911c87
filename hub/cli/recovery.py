"""`hub recovery`: records that are stuck in the databases around the hub, looked at, brought back, watched."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hub.cli import output, tables
from hub.cli.child import Signals
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
_PREVIEW = 1000  # records that a dry run shows at most

app = typer.Typer(help="Look at records that are stuck in the databases around the hub, and bring them back.")

app.command("forget")(forget)
app.command("report")(report)

File = Annotated[
    Path | None,
    typer.Option(
        "--file", metavar="PATH", help="A TOML file of sources; else HUB_RECOVERY_FILE, HUB_RECOVERY_SOURCES."
    ),
]
Sources = Annotated[
    list[str] | None, typer.Option("--source", metavar="NAME", help="Only of this source. Repeatable. Else: of all.")
]


@app.command("ls")
def listed(
    source: Sources = None,
    older_than: Annotated[
        float | None,
        typer.Option(
            parser=span(0.1, YEAR_S, "0.1s to 366d"),
            metavar="TIME",
            help="Stuck for longer than this alone: 90m, 2h, 1d; else than the threshold of its source.",
        ),
    ] = None,
    limit: Limit = 100,
    file: File = None,
    as_json: AsJson = False,
) -> int:
    """Show the records a reset would touch, the longest stuck first. 1 when a source cannot be read."""
    return asyncio.run(_list(choose(file, source), older_than, limit, as_json))


@app.command("reset")
def reset(
    source: Annotated[str, typer.Option("--source", metavar="NAME", help="The source.")],
    ids: Annotated[
        list[str] | None, typer.Option("--id", metavar="ID", help="Only this record. Repeatable. Else: all.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing, show what would be touched.")] = False,
    file: File = None,
    as_json: AsJson = False,
) -> int:
    """Bring back what is stuck in a source, batch by batch. 1 when something asked for was not stuck, or still is."""
    return asyncio.run(_reset(choose(file, [source]), ids, as_json, dry_run=dry_run))


@app.command("watch")
def watch(
    source: Sources = None,
    interval: Annotated[
        float | None,
        typer.Option(parser=span(0.1, 86_400, "0.1s to 1d"), metavar="TIME", help="Pause between looks; else 5s."),
    ] = None,
    file: File = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document per look, each in a line.")] = False,
) -> None:
    """Show again and again how many records of each source are stuck, until Ctrl-C."""
    asyncio.run(_watch(choose(file, source), _PAUSE_S if interval is None else interval, as_json))


@app.command("check")
def check(file: File = None, as_json: AsJson = False) -> int:
    """Look whether every source is as it is declared, and say of each that is not what is wrong, in one sentence.

    2 when a declaration does not fit what is there, 1 when the records of a source cannot be reached, 0 when all is
    well.
    """
    return asyncio.run(_check(choose(file, None), as_json))


async def _list(chosen: Chosen, older_than_s: float | None, limit: int, as_json: bool) -> int:
    for source in chosen.sources:
        if older_than_s is not None and older_than_s < source.threshold_s:
            least = output.duration(source.threshold_s)
            raise Usage(
                f"--older-than is below the threshold of {source.name}, {least}: younger records are not stuck."
            )
    async with Opened(chosen) as opened:
        answers = await opened.ask(lambda records: records.look(limit + 1, older_than_s))
        found = sorted(
            ((source, stuck) for source, several in answers.said for stuck in several), key=lambda each: -each[1].age_s
        )
        total: int | None = len(found)
        if len(found) > limit:
            total = None
            if older_than_s is None:
                total = sum(count for _, count in (await opened.ask(lambda records: records.count())).said)
    _show(found[:limit], total, answers.troubles, as_json)
    answers.tell()
    if len(found) > limit:
        which = f"{limit} of {total}" if total else f"the first {limit} of the"
        output.note(f"{which} stuck records shown; --limit shows more.")
    return answers.code


def _show(
    found: Sequence[tuple[Source, Stuck]],
    total: int | None,
    troubles: Sequence[SourceTrouble],
    as_json: bool,
    **facts: Any,
) -> None:
    if as_json:
        records = [_document(source, stuck) for source, stuck in found]
        output.put_json({**facts, "total": total, "records": records, "errors": [_told(each) for each in troubles]})
    elif found:
        rows = [_row(source, stuck) for source, stuck in found]
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
    elif not answers.said and not work.began:
        return answers.code
    else:
        output.put(work.sentence(name))
        for each in work.failed:
            output.put(output.one_line(f"  failed: {each}"))
    return max(answers.code, work.tell(name, refused=bool(answers.troubles)))


class _Work:
    """A reset under way: what it has done so far is known also when it is interrupted or its database goes away."""

    def __init__(self, opened: Opened, ids: Sequence[str] | None) -> None:
        self._opened = opened
        self._ids = ids
        self.began = False
        self.interrupted = False
        self.reset: list[str] = []
        self.failed: list[str] = []
        self.not_stuck: list[str] = []
        self.held: int | None = None  # not known

    async def do(self, records: Records) -> None:
        """Bring back what is to be brought back, and find out what was not."""
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
            with suppress(HubError):  # what went wrong with the reset is what is told
                self.held = await records.count()
            raise
        self.held = await records.count()

    async def _these(self, records: Records, ids: Sequence[str]) -> None:
        found, self.not_stuck = await _of_ids(records, ids)
        names = [stuck.id for stuck in found]
        size = records.source.batch_size
        for start in range(0, len(names), size):
            await self._batch(records, names[start : start + size])
        done = {*self.reset, *self.failed}
        still = [name for name in names if name not in done and await records.look(1, ids=[name])]
        self.not_stuck += [name for name in names if name not in done and name not in still]  # somebody was faster
        self.held = len(still)

    async def _batch(self, records: Records, ids: Sequence[str] | None) -> int:
        done = await records.reset(ids)
        self.began = True
        self.reset += done.reset
        self.failed += done.failed
        return done.count

    def facts(self) -> dict[str, Any]:
        """What was done, for programs."""
        return {"reset": self.reset, "failed": self.failed, "notStuck": self.not_stuck, "stillStuck": self.held}

    def sentence(self, name: str) -> str:
        """What was done, for people."""
        if not self.reset and not self.failed:
            return f"{name}: nothing was reset."
        return f"{name}: {output.plural(len(self.reset), 'record')} reset, {len(self.failed)} failed for good."

    def tell(self, name: str, *, refused: bool) -> int:
        """Say what was not done; the exit code. With `refused` it is said already why."""
        if self.not_stuck:
            output.note(f"not stuck in {name}, and left alone: {', '.join(map(shown, self.not_stuck))}.")
        if self.held:
            some = "1 record is" if self.held == 1 else f"{self.held} records are"
            why = "" if refused else ": somebody holds a lock, or the time came only now"
            output.note(f"{some} stuck in {name} still{why}.")
        if self.interrupted:
            output.note("interrupted; what was reset stays reset.")
        return 1 if self.not_stuck or self.held or self.interrupted else 0


async def _of_ids(records: Records, ids: Sequence[str]) -> tuple[list[Stuck], list[str]]:
    """Those of these ids that are stuck, and the ids of which none is. One by one: an id has several spellings."""
    found: dict[str, Stuck] = {}
    others = []
    for each in dict.fromkeys(ids):
        try:
            stuck = await records.look(1, ids=[each])
        except ValueError as error:
            raise Usage(f"--id {shown(each)}: {error}.") from None
        if not stuck:
            others.append(each)
        found |= {one.id: one for one in stuck}
    return list(found.values()), others


async def _preview(opened: Opened, chosen: Chosen, ids: Sequence[str] | None, as_json: bool) -> int:
    async def look(records: Records) -> tuple[list[Stuck], list[str], int]:
        if ids is None:
            return await records.look(_PREVIEW), [], await records.count()
        found, others = await _of_ids(records, ids)
        return found, others, len(found)

    answers = await opened.ask(look)
    answers.tell()
    name = _name(chosen)
    if not answers.said:
        if as_json:
            _show([], None, answers.troubles, as_json, source=name, dryRun=True, notStuck=[])
        return answers.code
    ((source, (found, others, total)),) = answers.said
    pairs = [(source, each) for each in found]
    _show(pairs, total, answers.troubles, as_json, source=name, dryRun=True, notStuck=others)
    if others:
        output.note(f"not stuck in {name}: {', '.join(map(shown, others))}.")
    if total > len(found):
        output.note(f"{len(found)} of {total} stuck records shown.")
    if not as_json:
        output.put("Nothing was changed.")
    return 1 if others else answers.code


def _name(chosen: Chosen) -> str:
    """What the one source is called, also where its declaration is refused."""
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
        for source, (count, age_s) in answers.said
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
        sound = [{"source": source.name, "state": "ok", "why": None} for source, _ in answers.said]
        output.put_json({"ok": not answers.troubles, "sources": sound + [_told(each) for each in answers.troubles]})
    else:
        for source, _ in answers.said:
            output.put(f"{source.name} ok")
        if not answers.said and not answers.troubles:
            output.put("No sources are declared.")
    answers.tell()
    return 2 if any(each.state == "refused" for each in answers.troubles) else answers.code

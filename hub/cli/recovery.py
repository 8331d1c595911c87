"""`hub recovery`: show, reset and watch records that are stuck in the databases around the hub."""

from __future__ import annotations

import sys
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Option

from hub.cli import output
from hub.cli.answers import CommandAnswer, Listing, duration_of, refreshed
from hub.cli.child import interruptible
from hub.cli.command import Group, Work
from hub.cli.connection import Row
from hub.cli.direct import store_settings
from hub.cli.inputs import YEAR_S, Usage, shown, span
from hub.cli.options import DRY_RUN, FILE, NAME, Input, list_limit
from hub.cli.progress import bar, is_watched
from hub.cli.recovery_report import report
from hub.cli.recovery_sources import Chosen, Opened, SourceTrouble, choose, opened
from hub.errors import HubError

if TYPE_CHECKING:
    from hub.recovery.models import Source, Stuck
    from hub.recovery.records import Records

_PREVIEW = 1000  # the most records that a dry run shows

app = Group(help="Show records that are stuck in the databases around the hub, and reset them.")

app.add("report", "admin")(report)

_FILE = FILE.option("A TOML file of sources. Default: HUB_RECOVERY_FILE, then HUB_RECOVERY_SOURCES.", "--file")
_SOURCES = NAME.option("Only this source. Repeatable. Default: all sources.", "--source")


@app.add("ls")
def list_stuck(
    source: list[str] | None = _SOURCES,
    older_than: float | None = Input("TIME", span(0.1, YEAR_S, "0.1s to 366d")).option(
        "Show only records stuck for longer than this: 90m, 2h, 1d. Default: the threshold of the source."
    ),
    limit: int = list_limit(100),
    file: Path | None = _FILE,
) -> Work:
    """Show the records that a reset would touch, the longest stuck first. Exit code 1 when a source cannot be read."""
    return _list(choose(file, source), older_than, limit)


@app.add("reset")
def reset(
    source: str = NAME.option("The name of the source.", "--source", default=...),
    ids: list[str] | None = Input("ID").option("Reset only this record. Repeatable. Default: all stuck ones.", "--id"),
    dry_run: bool = DRY_RUN,
    file: Path | None = _FILE,
) -> Work:
    """Reset the stuck records of a source, batch by batch. Exit code 1 when a record was not stuck, or still is."""
    return (_preview if dry_run else _reset)(choose(file, [source]), ids)


@app.add("watch")
def watch(
    source: list[str] | None = _SOURCES,
    interval: float = Input("TIME", span(0.1, 86_400, "0.1s to 1d")).option(
        "The time between two counts.", default="5s"
    ),
    file: Path | None = _FILE,
    as_json: bool = Option(False, "--json", help="Print a line of JSON each time stuck records are counted."),
) -> Coroutine[Any, Any, None]:
    """Show how many records of each source are stuck, again and again until Ctrl-C."""
    return _watch(choose(file, source), interval, as_json)


@app.add("check")
def check(file: Path | None = _FILE) -> Work:
    """Check every source against its declaration, and say in one sentence what is wrong with it.

    Exit codes: 0 all is well, 1 the records of a source cannot be reached, 2 a declaration does not fit them.
    """
    return _check(choose(file, None))


@app.add("forget")
async def forget(source: str = NAME.argument("The name of the source.")) -> None:
    """Forget a source that no hub declares any more, so that no alert is raised for it."""
    settings = store_settings("Which sources are known is in the hub's own store")
    from hub.store.connection import open_store  # imported only for this command

    async with open_store(settings) as store:
        known = await store.read("HKEYS", store.keys.zombie_sources)
        if source not in known:
            there = f"known are {', '.join(sorted(known))}" if known else "none is"
            raise Usage(f"No source {shown(source)} is known; {there}.")
        await store.read("HDEL", store.keys.zombie_sources, source)
    output.put(f"{source} is forgotten; a hub that declares it makes it known again.")


async def _list(chosen: Chosen, older_than_s: float | None, limit: int) -> CommandAnswer:
    for source in chosen.sources:
        if older_than_s is not None and older_than_s < source.threshold_s:
            least = output.duration(source.threshold_s)
            raise Usage(
                f"--older-than is below the threshold of {source.name}, {least}: younger records are not stuck."
            )
    async with opened(chosen) as sources:
        answers = await sources.ask(lambda records: records.look(limit + 1, older_than_s))
        stuck_records = sorted(
            ((source, stuck) for source, several in answers.answered for stuck in several),
            key=lambda pair: -pair[1].age_s,
        )
        total: int | None = len(stuck_records)
        if len(stuck_records) > limit:
            total = None
            if older_than_s is None:
                total = sum(count for _, count in (await sources.ask(lambda records: records.count())).answered)
    notes = answers.notes()
    if len(stuck_records) > limit:
        which = f"{limit} of {total}" if total else f"the first {limit} of the"
        notes.append(f"{which} stuck records shown; --limit shows more.")
    document = _document(stuck_records[:limit], total, answers.troubles)
    return CommandAnswer(document, lambda: _put(document), notes, answers.code)


async def _preview(chosen: Chosen, ids: Sequence[str] | None) -> CommandAnswer:
    async def look(records: Records) -> tuple[list[Stuck], list[str], int]:
        if ids is None:
            return await records.look(_PREVIEW), [], await records.count()
        of_ids, others = await _of_ids(records, ids)
        return of_ids, others, len(of_ids)

    async with opened(chosen) as sources:
        answers = await sources.ask(look)
    name, notes = _name(chosen), answers.notes()
    facts: dict[str, Any] = {"source": name, "dryRun": True, "notStuck": []}
    if not answers.answered:
        return CommandAnswer({**facts, **_document([], None, answers.troubles)}, None, notes, answers.code)
    ((source, (stuck_records, others, total)),) = answers.answered
    pairs = [(source, stuck) for stuck in stuck_records]
    if others:
        notes.append(f"not stuck in {name}: {', '.join(map(shown, others))}.")
    if total > len(pairs):
        notes.append(f"{len(pairs)} of {total} stuck records shown.")

    def show() -> None:
        _put(document)
        output.put("Nothing was changed.")

    document = {**facts, "notStuck": others, **_document(pairs, total, answers.troubles)}
    return CommandAnswer(document, show, notes, 1 if others else answers.code)


async def _reset(chosen: Chosen, ids: Sequence[str] | None) -> CommandAnswer:
    async with opened(chosen) as sources:
        work = _Reset(sources, ids)
        answers = await sources.ask(work.do)
    name = _name(chosen)

    def show() -> None:
        if answers.answered or work.began:
            output.put(work.sentence(name))
            for record in work.failed:
                output.put_line(f"  failed: {record}")

    left = work.left(name, refused=bool(answers.troubles))
    document = {"source": name, "dryRun": False, **work.facts(), "errors": _errors(answers.troubles)}
    return CommandAnswer(document, show, [*answers.notes(), *left], max(answers.code, 1 if left else 0))


def _document(pairs: Sequence[tuple[Source, Stuck]], total: int | None, troubles: Sequence[SourceTrouble]) -> Row:
    records = [
        {
            "source": source.name,
            "id": stuck.id,
            "status": stuck.status,
            "updatedAt": output.instant(stuck.updated_at),
            "ageSeconds": round(stuck.age_s, 3),
            "resets": stuck.attempts,
        }
        for source, stuck in pairs
    ]
    return {"total": total, "records": records, "errors": _errors(troubles)}


def _put(document: Row) -> None:
    if document["records"]:
        _RECORDS.put(document["records"])
    elif not document["errors"]:
        output.put("No stuck records.")


def _errors(troubles: Sequence[SourceTrouble]) -> list[Row]:
    return [asdict(trouble) for trouble in troubles]


def _name(chosen: Chosen) -> str:
    """Return the name of the only source, also when its declaration was refused."""
    return chosen.sources[0].name if chosen.sources else str(chosen.troubles[0].source)


class _Reset:
    """A reset of records. It keeps its results so far, for an interruption or the loss of the database."""

    def __init__(self, sources: Opened, ids: Sequence[str] | None) -> None:
        self._sources = sources
        self._ids = ids
        self.began = False
        self.interrupted = False
        self.reset: list[str] = []
        self.failed: list[str] = []
        self.not_stuck: list[str] = []
        self.held: int | None = None  # the number of records that stay stuck; None: not known

    async def do(self, records: Records) -> None:
        """Reset the records of the given ids, or all stuck ones, batch by batch, and count those that stay stuck."""
        with interruptible() as signals:
            await self._sources.write_parked(records)
            if self._ids is None:
                await self._all(records)
            else:
                await self._these(records, self._ids)
        self.interrupted = signals.seen is not None

    async def _all(self, records: Records) -> None:
        try:
            with bar("reset", await records.count() if is_watched() else None) as moved_to:
                while await self._batch(records, None):
                    moved_to(len(self.reset) + len(self.failed))
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
        self.not_stuck += [name for name in names if name not in {*done, *still}]  # reset by others meanwhile
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

    def left(self, name: str, *, refused: bool) -> list[str]:
        """Return sentences on the records that were not reset. `refused`: a note on the reason is printed already."""
        notes = []
        if self.not_stuck:
            notes.append(f"not stuck in {name}, and left alone: {', '.join(map(shown, self.not_stuck))}.")
        if self.held:
            some = "1 record is" if self.held == 1 else f"{self.held} records are"
            why = "" if refused else ": a record is locked, or became due only now"
            notes.append(f"{some} stuck in {name} still{why}.")
        if self.interrupted:
            notes.append("interrupted; what was reset stays reset.")
        return notes


async def _of_ids(records: Records, ids: Sequence[str]) -> tuple[list[Stuck], list[str]]:
    """Return the stuck records of these ids, and the other ids; asks for each alone, as an id has several spellings."""
    stuck_by_id: dict[str, Stuck] = {}
    others = []
    for id in dict.fromkeys(ids):
        try:
            stuck = await records.look(1, ids=[id])
        except ValueError as error:
            raise Usage(f"--id {shown(id)}: {error}.") from None
        if not stuck:
            others.append(id)
        stuck_by_id |= {one.id: one for one in stuck}
    return list(stuck_by_id.values()), others


async def _watch(chosen: Chosen, interval_s: float, as_json: bool) -> None:
    async with opened(chosen) as sources:
        await refreshed(lambda: _look_around(sources), interval_s, as_json=as_json)


async def _look_around(sources: Opened) -> CommandAnswer:
    async def look(records: Records) -> tuple[int, float | None]:
        first = await records.look(1)
        return await records.count() if first else 0, first[0].age_s if first else None

    answers = await sources.ask(look)
    nothing = dict.fromkeys(("stuck", "oldestSeconds", "thresholdSeconds"))
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
    rows += [{"source": trouble.source, **nothing, "trouble": trouble.why} for trouble in answers.troubles]

    def show() -> None:
        _WATCHED.put(rows)
        if not sys.stdout.isatty():
            output.put("")

    return CommandAnswer({"at": output.instant(datetime.now(UTC)), "sources": rows}, show)


async def _check(chosen: Chosen) -> CommandAnswer:
    for sentence in chosen.settings.notes:
        if "ZOMBIE_" in sentence or "HUB_RECOVERY_" in sentence:
            output.note(f"{sentence}.")
    async with opened(chosen) as sources:
        answers = await sources.ask(lambda records: records.check())

    def show() -> None:
        for source, _ in answers.answered:
            output.put(f"{source.name} ok")
        if not answers.answered and not answers.troubles:
            output.put("No sources are declared.")

    sound = [{"source": source.name, "state": "ok", "why": None} for source, _ in answers.answered]
    document = {"ok": not answers.troubles, "sources": sound + _errors(answers.troubles)}
    code = 2 if any(trouble.state == "refused" for trouble in answers.troubles) else answers.code
    return CommandAnswer(document, show, answers.notes(), code)


_RECORDS = Listing(
    "records",
    {
        "SOURCE": "source", "ID": "id", "STATUS": "status", "UPDATED": lambda record: f"{record['updatedAt'][:19]}Z",
        "AGE": duration_of("ageSeconds"), "RESETS": "resets",
    },
    numbers=("RESETS",),
    expendable=("RESETS", "STATUS"),
)  # fmt: skip
_WATCHED = Listing(
    "sources",
    {
        "SOURCE": "source", "STUCK": "stuck", "OLDEST": duration_of("oldestSeconds"),
        "THRESHOLD": duration_of("thresholdSeconds"), "TROUBLE": "trouble",
    },
    numbers=("STUCK", "OLDEST", "THRESHOLD"),
)  # fmt: skip

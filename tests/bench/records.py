"""A pass over a table of a million rows, a thousand of them stuck, against the same pass over a small table."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from hub.recovery.sql import SqlRecords
from tests.bench import machine
from tests.bench.report import Figure, Rounds
from tests.recovery.databases import INDEX, Database
from tests.recovery.postgres import Postgres

MANY, FEW = 1_000_000, 10_000
STUCK, WORKING = 1_000, 100  # records that are stuck, and records that are still worked on
ROUNDS = 9
NAMES = {"postgresql": "PostgreSQL", "sqlite": "SQLite"}
SETTINGS = {"fsync": "on", "shared_buffers": "256MB"}


@dataclass
class Side:
    """A database with so many rows, and the seconds that each pass over it took."""

    database: Database
    rows: int
    seconds: list[float] = field(default_factory=list)


def run() -> list[Figure]:
    """Each kind by itself: both tables in one server, or a file each; everything written goes to the disk."""
    figures = []
    for make in (_postgresql, _sqlite):
        with make() as (many, few):
            print(f"  {_version(many.database)}", flush=True)
            asyncio.run(_measure(many, few))
            figures += _figures(many, few)
    return figures


@contextmanager
def _postgresql() -> Iterator[tuple[Side, Side]]:
    with ExitStack() as stack:
        server = Postgres(**SETTINGS)
        stack.callback(server.stop)
        with machine.on_core(machine.LOAD_CORE):
            server.start()
        for name in ("many", "few"):
            server.execute(f"CREATE DATABASE {name}")
        yield (
            _filled(Database("postgresql", server.url("many"), server), MANY),
            _filled(Database("postgresql", server.url("few"), server), FEW),
        )


@contextmanager
def _sqlite() -> Iterator[tuple[Side, Side]]:
    with tempfile.TemporaryDirectory(prefix="hub-bench-") as folder:
        sides = []
        for rows in (MANY, FEW):
            path = Path(folder) / f"{rows}.db"
            sqlite3.connect(path).close()
            sides.append(_filled(Database("sqlite", f"sqlite+aiosqlite:///{path}", path), rows))
        yield sides[0], sides[1]


def _filled(database: Database, rows: int) -> Side:
    database.make_jobs(index=False)
    database.fill(rows - STUCK - WORKING, status="Done")
    database.fill(STUCK, first=rows + 1)
    database.fill(WORKING, age_s=1, first=2 * rows)
    database.execute(INDEX)
    database.execute("VACUUM ANALYZE jobs" if database.kind == "postgresql" else "ANALYZE")
    ((found,),) = database.execute("SELECT count(*) FROM jobs")
    assert found == rows
    return Side(database, rows)


def _version(database: Database) -> str:
    if database.kind == "sqlite":
        return f"SQLite {sqlite3.sqlite_version}, a file each"
    ((found,),) = database.execute("SHOW server_version")
    return f"PostgreSQL {found}, fsync on, shared buffers {SETTINGS['shared_buffers']}"


async def _measure(many: Side, few: Side) -> None:
    opened = [(side, SqlRecords(side.database.source())) for side in (many, few)]
    for turn in range(ROUNDS + 1):  # the first finds the tables and is not counted
        for side, records in opened:
            took = await _pass(records)
            if turn:
                side.seconds.append(took)
            _get_stuck_again(side.database)
    for _, records in opened:
        await records.close()


async def _pass(records: SqlRecords) -> float:
    """Make one pass as the sweeper does: count the stuck records, then reset batch after batch until none is left."""
    began = time.perf_counter()
    found = await records.count()
    done = 0
    while batch := (await records.reset()).count:
        done += batch
    took = time.perf_counter() - began
    assert (found, done) == (STUCK, STUCK), (found, done)
    return took


def _get_stuck_again(database: Database) -> None:
    """Make the same thousand records stuck again since two hours; vacuum now, so that none runs during a pass."""
    assert database.statuses()["Processing"] == WORKING
    database.execute(
        f"UPDATE jobs SET status = 'Processing', updated_at = {database.ago(7200)} WHERE status = 'Pending'"
    )
    if database.kind == "postgresql":
        database.execute("VACUUM jobs")


def _figures(many: Side, few: Side) -> list[Figure]:
    name = NAMES[many.database.kind]
    growth = Rounds.of(many.seconds, few.seconds)
    note = f"{ROUNDS} passes, {min(many.seconds) * 1000:.0f} to {max(many.seconds) * 1000:.0f} ms"
    return [
        Figure(
            f"{name}: a pass, {MANY:,} rows, {STUCK:,} stuck", median(many.seconds), at_most=2, unit=" s", note=note
        ),
        Figure(f"{name}: {MANY:,} rows against {FEW:,}", growth.median, at_most=1.3, note=growth.spread),
    ]

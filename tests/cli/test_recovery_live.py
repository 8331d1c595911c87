"""`hub recovery` on a PostgreSQL server, and as a process of its own."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from hub.cli import main
from hub.recovery.outcomes import Outcome, Outcomes, Parked
from tests.cli.command import Command
from tests.recovery.databases import Database, _servers, pg, postgres, sqlite
from tests.recovery.postgres import USER
from tests.world import wait_until

__all__ = ["_servers", "pg", "postgres", "sqlite"]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DISABLE_DOTENV", "1")
    return tmp_path / "recovery.toml"


def declare(file: Path, database: Database, **fields: Any) -> None:
    """Write the file: the jobs of a database, with a threshold of an hour."""
    known = {"name": "jobs", "url": database.url, "table": "jobs"} | fields
    file.write_text("[[sources]]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in known.items()))


def hub(capsys: pytest.CaptureFixture[str], file: Path, *words: str) -> tuple[int, str, str]:
    """The exit code of `hub recovery ...` with this file, and what it printed."""
    code = main(["recovery", *words, "--file", str(file)])
    out, err = capsys.readouterr()
    return code, out, err


def test_records_in_postgresql_are_listed_and_reset(pg: Database, file: Path, capsys):
    pg.make_jobs(id="uuid", status="enum")
    long, short, fresh = (f"0000000{n}-aaaa-4bbb-8ccc-000000000000" for n in range(3))
    pg.add(long, age_s=9000)
    pg.add(short, age_s=3660)
    pg.add(fresh, age_s=3540)
    declare(file, pg, error_field="error", attempts_field="attempts", max_attempts=1)
    assert hub(capsys, file, "check") == (0, "jobs ok\n", "")
    code, out, _ = hub(capsys, file, "ls")
    assert (code, [line.split()[1] for line in out.splitlines()]) == (0, ["ID", long, short])
    done = hub(capsys, file, "reset", "--source", "jobs", "--id", long.upper(), "--id", fresh)
    assert done == (
        1, "jobs: 1 record reset, 0 failed for good.\n", f"hub: not stuck in jobs, and left alone: '{fresh}'.\n",
    )  # fmt: skip
    assert pg.statuses() == {"Pending": 1, "Processing": 2}
    pg.execute(f"UPDATE jobs SET attempts = 1 WHERE id = '{short}'")
    assert hub(capsys, file, "reset", "--source", "jobs") == (
        0, f"jobs: 0 records reset, 1 failed for good.\n  failed: {short}\n", "",
    )  # fmt: skip
    assert pg.jobs()[short].status == "Failed"


def test_a_locked_record_is_left_alone_and_reported(pg: Database, file: Path, capsys):
    pg.make_jobs()
    pg.add(1, 2)
    declare(file, pg)

    with locked(pg, "SELECT * FROM jobs WHERE id = 2 FOR UPDATE"):
        code, out, err = hub(capsys, file, "reset", "--source", "jobs")
    assert (code, out) == (1, "jobs: 1 record reset, 0 failed for good.\n")
    assert err == "hub: 1 record is stuck in jobs still: a record is locked, or became due only now.\n"
    assert {id: job.status for id, job in pg.jobs().items()} == {"1": "Pending", "2": "Processing"}


@contextmanager
def locked(pg: Database, statement: str) -> Iterator[None]:
    """A transaction that holds the rows of a statement locked."""
    with asyncio.Runner() as runner:
        theirs = runner.run(asyncpg.connect(host=str(pg.place.folder), user=USER, database=pg.name))
        runner.run(theirs.execute("BEGIN"))
        runner.run(theirs.execute(statement))
        try:
            yield
        finally:
            runner.run(theirs.close())


def test_a_parked_outcome_is_written_instead_of_resetting_its_record(
    sqlite: Database, file: Path, redis_server, capsys, monkeypatch
):
    sqlite.make_jobs()
    sqlite.add(1, 2)
    declare(file, sqlite)
    ((mark,),) = sqlite.execute("SELECT updated_at FROM jobs WHERE id = 1")

    async def park() -> None:
        outcomes = Outcomes.at(redis_server.url, "", "jobs")
        await outcomes.park(Parked("1", (mark,), Outcome("Done")))
        await outcomes.close()

    asyncio.run(park())
    monkeypatch.setenv("HUB_REDIS_URL", redis_server.url)
    assert hub(capsys, file, "reset", "--source", "jobs") == (0, "jobs: 1 record reset, 0 failed for good.\n", "")
    assert sqlite.statuses() == {"Done": 1, "Pending": 1}


def test_rows_can_be_reset_while_redis_is_away(sqlite: Database, file: Path, capsys, monkeypatch):
    sqlite.make_jobs()
    sqlite.add(1)
    declare(file, sqlite)
    monkeypatch.setenv("HUB_REDIS_URL", "redis://127.0.0.1:9")
    code, out, err = hub(capsys, file, "reset", "--source", "jobs")
    assert (code, out, err.count("\n")) == (0, "jobs: 1 record reset, 0 failed for good.\n", 1)
    assert err.startswith("hub: outcomes that may wait in Redis were not written first: Redis at redis://127.0.0.1:9 ")


def test_after_ctrl_c_a_hanging_database_is_not_waited_for(postgres, pg: Database, file: Path, lone_command):
    pg.make_jobs()
    declare(file, pg)
    with locked(pg, "LOCK TABLE jobs IN ACCESS EXCLUSIVE MODE"):
        waiting = lone_command.start("recovery", "ls", "--file", str(file))
        wait_until(lambda: postgres.execute("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"))
        waiting.signal(signal.SIGINT)
        assert (waiting.end(), waiting.out, waiting.err) == (130, "", "")


WRONG = {
    "table": {"table": "shop.jobs"},
    "status_field": {"status_field": "state"},
    "updated_at_field": {"updated_at_field": "status"},
    "stuck": {"stuck": "processing"},
    "attempts_field": {"attempts_field": "error", "max_attempts": 3},
    "time_zone": {"time_zone": "Europe/Nowhere"},
    "url": {"url": "postgresql+psycopg2://nobody:s3cr3t@db/shop"},
}


@pytest.mark.parametrize(("field", "fields"), WRONG.items(), ids=WRONG)
def test_an_unsuitable_source_is_refused_in_one_sentence(pg: Database, file: Path, capsys, field, fields):
    pg.make_jobs(status="enum", updated_at="naive")
    declare(file, pg, **fields)
    code, out, err = hub(capsys, file, "check")
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert err.startswith(f"hub: {file}, source jobs, {field}: ")
    assert "s3cr3t" not in err


def test_a_missing_database_is_reported_in_one_sentence(postgres, pg: Database, file: Path, capsys):
    declare(file, pg, url=postgres.url("no_such"))
    for words in (("check",), ("ls",), ("reset", "--source", "jobs")):
        code, out, err = hub(capsys, file, *words)
        assert (code, out, err.count("\n")) == (1, "", 1)
        assert err.startswith(f"hub: {file}, source jobs, url: ")


def test_the_command_watches_until_it_is_interrupted(sqlite: Database, file: Path, lone_command: Command):
    sqlite.make_jobs()
    sqlite.add(1)
    declare(file, sqlite)
    watching = lone_command.start("recovery", "watch", "--interval", "0.2", HUB_RECOVERY_FILE=str(file))
    watching.until_out("jobs         1")
    done = lone_command("recovery", "reset", "--source", "jobs", "--file", str(file))
    assert (done.returncode, done.stdout, done.stderr) == (0, "jobs: 1 record reset, 0 failed for good.\n", "")
    watching.until_out("jobs         0        -")
    watching.signal(signal.SIGINT)
    assert (watching.end(), watching.err) == (0, "")


def test_a_missing_database_file_is_reported_without_a_traceback(sqlite: Database, file, lone_command: Command):
    declare(file, sqlite, url=sqlite.url + ".gone")
    done = lone_command("recovery", "ls", "--file", str(file))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done.stderr

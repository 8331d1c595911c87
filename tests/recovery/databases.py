"""Fixtures: private databases with a table of jobs in them."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hub.recovery.models import SqlSource
from tests.recovery.mariadb import MariaDB
from tests.recovery.postgres import Postgres

STATUSES = ("Pending", "Processing", "Done", "Failed")
COLUMNS = {
    "postgresql": {
        "integer": "integer", "uuid": "uuid", "text": "text", "varchar": "varchar(12)", "enum": "job_status",
        "aware": "timestamptz", "naive": "timestamp",
    },
    "sqlite": {
        "integer": "INTEGER", "uuid": "CHAR(32)", "text": "TEXT", "varchar": "VARCHAR(12)", "enum": "VARCHAR(10)",
        "aware": "TIMESTAMP", "naive": "DATETIME",
    },
    "mariadb": {
        "integer": "integer", "uuid": "uuid", "text": "varchar(80)", "varchar": "varchar(12)",
        "enum": "enum('Pending', 'Processing', 'Done', 'Failed')", "aware": "timestamp(6) NULL", "naive": "datetime(6)",
    },
}  # fmt: skip
INDEX = "CREATE INDEX jobs_by_status ON jobs (status, updated_at)"


@dataclass(frozen=True)
class Job:
    """Return the fields of a record after a test; `fresh` when it was updated within the last minute."""

    status: Any
    fresh: bool | None
    error: str | None = None
    attempts: int | None = None


@dataclass
class Database:
    """A fresh database: `execute` is another program that uses it."""

    kind: str
    url: str
    place: Any  # the server, or the file

    def execute(self, sql: str) -> list[Any]:
        """Return the rows of a statement, or nothing of several."""
        if self.kind in ("postgresql", "mariadb"):
            return self.place.execute(sql, self.name)
        with closing(sqlite3.connect(self.place, timeout=20)) as connection, connection:
            if ";" in sql.strip().rstrip(";"):
                connection.executescript(sql)
                return []
            return connection.execute(sql).fetchall()

    @property
    def name(self) -> str:
        """The name of the database on its server."""
        return self.url.rpartition("@/")[2].partition("?")[0]

    def make_jobs(
        self, id: str = "integer", status: str = "text", updated_at: str = "aware", index: bool = True
    ) -> None:
        """The table, with columns of these sorts (see `COLUMNS`), or of types in SQL."""
        types = COLUMNS[self.kind]
        if status == "enum" and self.kind == "postgresql":
            self.execute(f"CREATE TYPE job_status AS ENUM {STATUSES}")
        self.execute(
            f"CREATE TABLE jobs (id {types.get(id, id)} PRIMARY KEY, status {types.get(status, status)} NOT NULL,"
            f" updated_at {types.get(updated_at, updated_at)}, error text, attempts integer)"
        )
        if index:
            self.execute(INDEX)

    def ago(self, seconds: float, zone: str = "UTC", naive: bool = False) -> str:
        """Return an expression for the time so long ago, as a column holds it."""
        if self.kind == "sqlite":
            return f"strftime('%Y-%m-%d %H:%M:%f', 'now', '-{seconds} seconds') || '000'"
        if self.kind == "mariadb":
            return f"timestampadd(MICROSECOND, -{round(seconds * 1_000_000)}, utc_timestamp(6))"
        aware = f"clock_timestamp() - interval '{seconds} seconds'"
        return f"({aware}) AT TIME ZONE '{zone}'" if naive else aware

    def add(
        self, *ids: Any, status: Any = "Processing", age_s: float = 7200, at: str | None = None, **more: Any
    ) -> None:
        """Records, updated so long ago, or at a time given in SQL."""
        at = at or self.ago(age_s)
        fields = ["id", "status", "updated_at", *more]
        values = [f"({', '.join([repr(i), repr(status), at, *map(repr, more.values())])})" for i in ids]
        self.execute(f"INSERT INTO jobs ({', '.join(fields)}) VALUES {', '.join(values)}")

    def fill(self, count: int, status: str = "Processing", age_s: float = 7200, first: int = 1) -> None:
        """Many records with whole numbers for ids."""
        numbers = {
            "postgresql": f"SELECT n FROM generate_series({first}, {first + count - 1}) n",
            "sqlite": f"WITH RECURSIVE s(n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM s LIMIT {count})"
            " SELECT n FROM s",
            "mariadb": f"SELECT seq AS n FROM seq_{first}_to_{first + count - 1}",
        }[self.kind]
        self.execute(
            f"INSERT INTO jobs (id, status, updated_at) SELECT n, '{status}', {self.ago(age_s)} FROM ({numbers}) t"
        )

    def jobs(self) -> dict[str, Job]:
        """Return every record."""
        fresh = {
            "postgresql": "updated_at::timestamptz > now() - interval '1 minute'",
            "mariadb": "updated_at > timestampadd(MINUTE, -1, utc_timestamp(6))",
            "sqlite": "julianday('now') - julianday(updated_at) < 1.0 / 1440",
        }[self.kind]
        rows = self.execute(f"SELECT id, status, {fresh}, error, attempts FROM jobs ORDER BY id")
        return {
            str(i): Job(status, None if fresh is None else bool(fresh), *rest)
            for i, status, fresh, *rest in map(tuple, rows)
        }

    def statuses(self) -> dict[str, int]:
        """Return how many records have each status."""
        return {row[0]: row[1] for row in self.execute("SELECT status, count(*) FROM jobs GROUP BY status ORDER BY 1")}

    def source(self, **changes: Any) -> SqlSource:
        """Return its jobs as a source, with a threshold of an hour."""
        return SqlSource(**{"name": "jobs", "url": self.url, "table": "jobs", **changes})


@pytest.fixture(scope="session")
def _servers() -> Iterator[list[Postgres]]:
    started: list[Postgres] = []
    yield started
    for server in started:
        server.stop()


@pytest.fixture
def postgres(_servers: list[Postgres]) -> Postgres:
    """A running server, started with the first test that needs it."""
    if not _servers:
        server = Postgres()
        _servers.append(server)
        server.start()
    return _servers[0]


@pytest.fixture
def pg(postgres: Postgres) -> Iterator[Database]:
    """A fresh database in PostgreSQL."""
    name = f"test_{secrets.token_hex(6)}"
    postgres.execute(f"CREATE DATABASE {name}")
    yield Database("postgresql", postgres.url(name), postgres)
    postgres.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def _mariadb() -> Iterator[MariaDB]:
    server = MariaDB()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def mariadb(_mariadb: MariaDB) -> Iterator[Database]:
    """A fresh database in MariaDB."""
    name = f"test_{secrets.token_hex(6)}"
    _mariadb.execute(f"CREATE DATABASE {name}")
    yield Database("mariadb", _mariadb.url(name), _mariadb)
    _mariadb.execute(f"DROP DATABASE {name}")


@pytest.fixture
def sqlite(tmp_path: Path) -> Database:
    """A fresh database in SQLite."""
    path = tmp_path / "jobs.db"
    sqlite3.connect(path).close()
    return Database("sqlite", f"sqlite+aiosqlite:///{path}", path)


@pytest.fixture(params=["postgresql", "sqlite"])
def database(request: pytest.FixtureRequest) -> Database:
    """A fresh database of each kind."""
    found: Database = request.getfixturevalue({"postgresql": "pg", "sqlite": "sqlite"}[request.param])
    return found

"""SQLAlchemy engines for the database of a source; every wait for the database has a time limit."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import URL, Connection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool
from sqlalchemy.util import await_only
from sqlalchemy.util.concurrency import in_greenlet

from hub.recovery.clocks import CLOCKS
from hub.recovery.models import SqlSource
from hub.recovery.urls import read_url
from hub.settings import mask_url

CONNECT_S = 10.0
STATEMENT_S = 30.0
BUSY_S = 10.0  # how long SQLite waits for another writer
POOL = 2  # connections: one for a pass of recovery, one for a command of an operator
READS = "hub_reads"  # execution option of a transaction that only reads: it takes no write lock in SQLite

_ASYNC = {
    "postgresql": "postgresql+asyncpg",
    "sqlite": "sqlite+aiosqlite",
    "mysql": "mysql+asyncmy",
    "mariadb": "mariadb+asyncmy",
}
_TRIED = "postgresql+asyncpg and sqlite+aiosqlite"
_OURS = ("asyncpg", "aiosqlite")  # the drivers that the extra `sql` installs


_WAITS: dict[str, dict[str, Any]] = {  # time limits as each driver names them; others have connect_timeout
    # No named prepared statements: behind a PgBouncer that pools transactions the next server may not know them.
    "asyncpg": {
        "timeout": CONNECT_S,
        "command_timeout": STATEMENT_S,
        "statement_cache_size": 0,
        "prepared_statement_cache_size": 0,
        "prepared_statement_name_func": str,
    },
    "psycopg": {"connect_timeout": int(CONNECT_S), "prepare_threshold": None},
}


def make_engine(source: SqlSource, pool_size: int = POOL) -> AsyncEngine:
    """Return an engine with few connections and a time limit on every wait.

    Raises `SourceRefused` for a URL that cannot be used; the error does not show the password. In SQLite every
    transaction takes the write lock when it begins, so that the rows it read are the rows it changes; a transaction
    with the execution option `READS` takes no lock.
    """
    url, options = read_url(source)
    try:
        dialect = url.get_dialect()
        is_async = dialect.get_async_dialect_cls(url).is_async
    except (sa.exc.ArgumentError, ImportError):
        raise source.refused("url", f"{url.drivername} is no driver that is known here; {_TRIED} are") from None
    if dialect.name not in CLOCKS:
        known = ", ".join(CLOCKS)
        raise source.refused("url", f"the clock of {dialect.name} is not known here; those of {known} are")
    if not is_async:
        raise source.refused("url", f"{url.drivername} is not asynchronous; write {_ASYNC[dialect.name]}://")
    try:
        engine = create_async_engine(_opened(url), **_bounds(dialect.name, url, options, pool_size))
    except ModuleNotFoundError as error:
        package = "'capacity-hub[sql]'" if error.name in _OURS else error.name
        raise source.refused("url", f"the driver {error.name} is not installed; run: pip install {package}") from None
    except (sa.exc.SQLAlchemyError, TypeError, ValueError) as error:
        raise source.refused("url", f"it cannot be used: {mask_url(str(error).splitlines()[0])}") from None
    if dialect.name == "sqlite":
        event.listen(engine.sync_engine, "begin", _begin)
        event.listen(engine.sync_engine, "do_connect", _open_once)
        if engine.dialect.has_terminate:  # the driver's connections have `stop`
            engine.dialect.do_terminate = _stop  # type: ignore[assignment, method-assign]
    elif dialect.name == "postgresql" and dialect.driver != "asyncpg":
        event.listen(engine.sync_engine, "begin", _bound_statements)
    elif dialect.name in ("mysql", "mariadb"):
        event.listen(engine.sync_engine, "connect", _in_utc)
    return engine


def _opened(url: URL) -> URL:
    """Return the URL; for SQLite changed so that a missing file is an error and is not created."""
    if url.get_backend_name() != "sqlite" or str(url.database).startswith("file:"):
        return url
    return url.set(database=f"file:{quote(str(url.database))}").update_query_dict({"mode": "rw", "uri": "true"})


def _bounds(dialect: str, url: URL, options: dict[str, Any], pool_size: int) -> dict[str, Any]:
    if dialect == "sqlite":
        # None: the driver leaves transactions to `_begin`.
        return {"poolclass": NullPool, "connect_args": {"timeout": BUSY_S, "isolation_level": None}}
    driver = url.get_driver_name()
    waits = dict(_WAITS.get(driver, {"connect_timeout": int(CONNECT_S)}))
    return {
        "pool_size": pool_size,
        "max_overflow": 0,
        "pool_timeout": CONNECT_S,
        "pool_pre_ping": True,
        "isolation_level": "READ COMMITTED",  # set, so that a row that changed meanwhile is read again
        "connect_args": {name: value for name, value in waits.items() if name not in url.query} | options,
    }


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN" if connection.get_execution_options().get(READS) else "BEGIN IMMEDIATE")


def _bound_statements(connection: Connection) -> None:
    """Limit the time of each statement of this transaction. A limit for the whole session fails behind PgBouncer."""
    connection.exec_driver_sql(f"SET LOCAL statement_timeout = {int(STATEMENT_S * 1000)}")


def _in_utc(connection: Any, record: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("SET time_zone = '+00:00'")
    cursor.close()


def _open_once(dialect: Any, record: Any, arguments: list[Any], named: dict[str, Any]) -> None:
    """Open and close the SQLite file once, so that a faulty file is an error before the driver starts its thread."""
    await_only(asyncio.to_thread(lambda: sqlite3.connect(*arguments, **named).close()))


def _stop(connection: Any) -> None:
    """Close the driver's connection, without waiting for a thread that has ended.

    SQLAlchemy closes a connection twice when a task is cancelled, and the second close would wait for ever.
    """
    driver = connection.driver_connection
    if in_greenlet():
        await_only(driver.close())  # returns at once if the connection is closed
    else:
        driver.stop()  # outside of a greenlet nothing can be awaited


@asynccontextmanager
async def reading(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """Lend a connection that only reads. When the task is cancelled, it does not wait for a database that hangs."""
    async with engine.connect() as connection:
        yield await connection.execution_options(**{READS: True})
        await connection.rollback()  # else SQLAlchemy rolls back on closing, and a cancellation cannot end that

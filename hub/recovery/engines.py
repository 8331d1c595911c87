"""Engines: how the database of a source is reached, with bounds on every wait, and what its URL says."""

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
BUSY_S = 10.0  # how long SQLite waits for somebody else who writes
POOL = 2  # a pass takes one connection, a command another
READS = "hub_reads"  # an execution option: in SQLite, take no lock for writing

_ASYNC = {
    "postgresql": "postgresql+asyncpg",
    "sqlite": "sqlite+aiosqlite",
    "mysql": "mysql+asyncmy",
    "mariadb": "mariadb+asyncmy",
}
_TRIED = "postgresql+asyncpg and sqlite+aiosqlite"
_OURS = ("asyncpg", "aiosqlite")  # the drivers of the extra


_WAITS: dict[str, dict[str, Any]] = {  # what drivers call the bounds on their waits; others say connect_timeout
    # No prepared statements with names: behind a PgBouncer that pools transactions the next one may be another server.
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
    """An engine with few connections and bounds on every wait; raises `SourceRefused`, which never shows a password.

    In SQLite every transaction takes the lock for writing when it begins, so that what it reads is what it changes,
    except with the execution option `READS`.
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
        if engine.dialect.has_terminate:  # of drivers that have `stop`
            engine.dialect.do_terminate = _stop  # type: ignore[assignment, method-assign]
    elif dialect.name == "postgresql" and dialect.driver != "asyncpg":
        event.listen(engine.sync_engine, "begin", _bound_statements)
    elif dialect.name in ("mysql", "mariadb"):
        event.listen(engine.sync_engine, "connect", _in_utc)
    return engine


def _opened(url: URL) -> URL:
    """For SQLite such that a file that is not there is missed rather than made."""
    if url.get_backend_name() != "sqlite" or str(url.database).startswith("file:"):
        return url
    return url.set(database=f"file:{quote(str(url.database))}").update_query_dict({"mode": "rw", "uri": "true"})


def _bounds(dialect: str, url: URL, options: dict[str, Any], pool_size: int) -> dict[str, Any]:
    if dialect == "sqlite":
        # Without a level of its own the driver leaves transactions to `_begin`.
        return {"poolclass": NullPool, "connect_args": {"timeout": BUSY_S, "isolation_level": None}}
    driver = url.get_driver_name()
    waits = dict(_WAITS.get(driver, {"connect_timeout": int(CONNECT_S)}))
    return {
        "pool_size": pool_size,
        "max_overflow": 0,
        "pool_timeout": CONNECT_S,
        "pool_pre_ping": True,
        "isolation_level": "READ COMMITTED",  # whatever the database's own: a row that changed is looked at again
        "connect_args": {name: value for name, value in waits.items() if name not in url.query} | options,
    }


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN" if connection.get_execution_options().get(READS) else "BEGIN IMMEDIATE")


def _bound_statements(connection: Connection) -> None:
    """For this transaction alone: a PgBouncer takes no such option when a connection begins, and gives it to others."""
    connection.exec_driver_sql(f"SET LOCAL statement_timeout = {int(STATEMENT_S * 1000)}")


def _in_utc(connection: Any, record: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("SET time_zone = '+00:00'")
    cursor.close()


def _open_once(dialect: Any, record: Any, arguments: list[Any], named: dict[str, Any]) -> None:
    """Open the file and close it: the driver leaves a thread behind for a while when it cannot."""
    await_only(asyncio.to_thread(lambda: sqlite3.connect(*arguments, **named).close()))


def _stop(connection: Any) -> None:
    """Have the driver close it, once. SQLAlchemy would do so twice when it is cancelled, and wait for ever for a thread
    that the first has ended: a program whose tasks are cancelled at its end would not end."""
    driver = connection.driver_connection
    if in_greenlet():
        await_only(driver.close())  # of one that is closed there is nothing to wait for
    else:
        driver.stop()  # nobody can wait


@asynccontextmanager
async def reading(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """A connection that only reads; a task that is cancelled waits for no database that hangs."""
    async with engine.connect() as connection:
        yield await connection.execution_options(**{READS: True})
        await connection.rollback()  # else it is done on closing, which SQLAlchemy sees through, cancelled or not

"""Faults at the line between SQLAlchemy and the driver: operation number N fails, in one of several ways.

Operations are what the loop can wait for: taking a connection, a statement, a commit, a roll-back. Every engine that
the loop makes goes through here, and so do the sessions on it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.util import await_only

from hub.recovery import engines
from hub.recovery.loop import processing

REFUSED, CUT, ANSWER_LOST, HANGS = "refused", "cut", "answer lost", "hangs"
FAULTS = (REFUSED, CUT, ANSWER_LOST, HANGS)
Do = Callable[[], None]


class Faults:
    """Counts operations, and has some of them fail. `at` is the number of the first, and `length` follow it."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.at = -1
        self.length = 1
        self.kind = REFUSED
        self.action: Do | None = None
        """Done at operation `at` instead of a fault."""
        self.chance: tuple[random.Random, float] | None = None
        """Faults at random instead."""

    def plan(self, kind: str | Do, at: int, length: int = 1) -> None:
        """Begin to count again, and fail there."""
        self.log, self.at, self.length = [], at, length
        self.kind, self.action = (kind, None) if isinstance(kind, str) else ("", kind)

    @property
    def struck(self) -> bool:
        """Whether the planned operation was reached."""
        return self.at < len(self.log)

    def clear(self) -> None:
        """No more faults."""
        self.at, self.chance = -1, None

    @contextmanager
    def everywhere(self) -> Iterator[Faults]:
        """Be in every engine that the loop makes."""

        def make_engine(*arguments: Any) -> AsyncEngine:
            engine = engines.make_engine(*arguments)
            self.attach(engine)
            return engine

        before, processing.make_engine = processing.make_engine, make_engine
        try:
            yield self
        finally:
            processing.make_engine = before

    def attach(self, engine: AsyncEngine) -> None:
        """Be in this engine, and in the sessions on it."""
        dialect = engine.sync_engine.dialect
        operations = {"do_execute": "execute", "do_commit": "commit", "do_rollback": "rollback"}
        if not _can_be_cut(dialect):
            del operations["do_rollback"]
        for name, what in operations.items():
            setattr(dialect, name, self._around(getattr(dialect, name), what, dialect))

        pool = engine.sync_engine.pool
        real = pool.connect

        def connect() -> Any:
            kind = self._next("connect")
            if kind == REFUSED:
                raise dialect.loaded_dbapi.OperationalError("connect refused")
            if kind == HANGS:
                await_only(asyncio.sleep(3600))
            found = real()
            if kind is not None and _can_be_cut(dialect):
                _cut(found.dbapi_connection)
            return found

        pool.connect = connect  # type: ignore[method-assign]

    def _around(self, real: Any, what: str, dialect: Any) -> Any:
        def do(*arguments: Any, **options: Any) -> Any:
            connection = arguments[0] if what != "execute" else arguments[0]._adapt_connection
            name = what if what != "execute" else f"execute {arguments[1].split()[0]}"
            return self._strike(name, lambda: real(*arguments, **options), connection, dialect)

        return do

    def _strike(self, what: str, real: Callable[[], Any], connection: Any, dialect: Any) -> Any:
        kind = self._next(what)
        if kind is None:
            return real()
        if kind == HANGS:
            # SQLAlchemy lets no caller cut off a roll-back: there it is the driver's own bound that ends it.
            await_only(asyncio.sleep(1 if what == "rollback" else 3600))
        if kind == ANSWER_LOST:
            real()
        # No connection leads to a file. Nothing refuses a roll-back and goes on afterwards.
        if _can_be_cut(dialect) and (kind != REFUSED or what == "rollback"):
            _cut(connection)
        raise dialect.loaded_dbapi.OperationalError(f"{what} {kind}")

    def _next(self, what: str) -> str | None:
        number = len(self.log)
        self.log.append(what)
        if self.chance is not None:
            source, chance = self.chance
            return source.choice(FAULTS[:3]) if source.random() < chance else None
        if not self.at <= number < self.at + self.length or self.at < 0:
            return None
        if self.action is not None:
            self.action()
        return self.kind or None


def _can_be_cut(dialect: Any) -> bool:
    return bool(dialect.name != "sqlite")


def _cut(connection: Any) -> None:
    """Close it for real."""
    connection._connection.terminate()

"""Outcomes that wait in Redis until the database is back, and how they are written then, once."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from hub.errors import HubError, RecordsUnavailable
from hub.recovery.faults import in_a_sentence
from hub.recovery.rows import Rows
from hub.settings import Settings
from hub.settings.cluster import prefix_for
from hub.settings.knobs import read_redis_url
from hub.store.connection import make_client
from hub.store.faults import translated
from hub.store.keys import Keys

T = TypeVar("T")

LIFETIME_S = 7 * 86_400  # the record itself is brought back long before
PAGE = 100
WRITING_S = 25.0  # of one call: what is left then waits for the next
OUTCOME_S = 15.0  # for one of them
SHORT = 200  # characters of a reason in ASCII, which the 255 bytes of the shortest text type of MySQL hold
_log = logging.getLogger("hub.recovery")


def stamp(rows: Rows) -> sa.ColumnElement[Any]:
    """The time of the last update as it is compared: what marks a claim. In SQLite the text, for it has many forms."""
    if isinstance(rows.updated_at.type, sqlite.DATETIME):
        return sa.type_coerce(rows.updated_at, sa.String())
    return rows.updated_at


@dataclass(frozen=True)
class Outcome:
    """What is to become of a record: its status, a reason where it failed, and further columns."""

    status: str | int
    error: str | None = None
    values: Mapping[str, Any] = field(default_factory=dict)

    def change(self, rows: Rows) -> dict[str, Any]:
        """The columns to set."""
        change: dict[str, Any] = {rows.status.name: self.status, **self.values, rows.updated_at.name: rows.now}
        if self.error is not None and rows.error is not None:
            # No lone halves of surrogate pairs: no driver takes them.
            change[rows.error.name] = rows.error_text(self.error.encode("utf-8", "replace").decode())
        return change

    def with_plainer_reasons(self) -> Iterator[Outcome]:
        """Yield the outcome, then the same with reasons that more columns take: in ASCII, cut short, none at all."""
        yield self
        if self.error is not None:
            escaped = self.error.encode("ascii", "backslashreplace").decode()
            yield replace(self, error=escaped)
            yield replace(self, error=escaped[:SHORT])
            yield replace(self, error=None)

    @property
    def is_plain(self) -> bool:
        """Whether JSON gives back what went in."""
        try:
            return bool(json.loads(json.dumps(dict(self.values))) == self.values)
        except (TypeError, ValueError, RecursionError):
            return False


@dataclass(frozen=True)
class Parked:
    """An outcome that waits, the record it is for, and the stamps of the claim, one of which the record must bear."""

    id: str
    stamps: tuple[Any, ...]
    outcome: Outcome

    @property
    def name(self) -> str:
        """What it is filed under: one per claim."""
        return f"{self.id} {_plain(self.stamps[0])}"

    def text(self) -> str:
        """As it is kept."""
        outcome = self.outcome
        return json.dumps(
            {
                "id": self.id,
                "stamps": [_plain(each) for each in self.stamps],
                "status": outcome.status,
                "error": outcome.error,
                "values": dict(outcome.values),
            }
        )

    @classmethod
    def read(cls, text: str, rows: Rows) -> Parked:
        """As it was kept; raises `ValueError`, `KeyError` or `TypeError`."""
        kept = json.loads(text)
        as_text = stamp(rows) is not rows.updated_at
        stamps = tuple(each if as_text else datetime.fromisoformat(each) for each in kept["stamps"])
        return cls(str(kept["id"]), stamps, Outcome(kept["status"], kept["error"], kept["values"]))


def _plain(each: Any) -> Any:
    return each.isoformat() if isinstance(each, datetime) else each


class Outcomes:
    """The outcomes of one source that wait. All of it raises `StoreUnavailable` when Redis does not answer."""

    def __init__(self, client: Any, keys: Keys, source: str) -> None:
        self._client = client
        self._key = keys.outcomes(source)

    @classmethod
    def at(cls, url: str, prefix: str, source: str) -> Outcomes:
        """Those in the Redis of this URL, over a connection of their own; raises `BadSetting`."""
        redis_url = read_redis_url(url)
        settings = Settings(redis_url=redis_url, key_prefix=prefix_for(redis_url, prefix))
        return cls(make_client(redis_url, settings), Keys(settings.key_prefix), source)

    async def park(self, parked: Parked) -> None:
        """Keep one. Safe to repeat."""
        with _heard():
            pipe = self._client.pipeline(transaction=True)
            pipe.hset(self._key, parked.name, parked.text())
            pipe.expire(self._key, LIFETIME_S)
            await pipe.execute()

    async def count(self) -> int:
        """How many wait."""
        return int(await self._asked(self._client.hlen(self._key)))

    async def pages(self) -> AsyncIterator[dict[str, str]]:
        """All that wait, some at a time: name -> text."""
        cursor = 0
        while True:
            cursor, found = await self._asked(self._client.hscan(self._key, cursor, count=PAGE))
            if found:
                yield found
            if not cursor:
                return

    async def forget(self, names: Iterable[str]) -> None:
        """Let go of those that are written, or that nobody can write any more."""
        if names := list(names):
            await self._asked(self._client.hdel(self._key, *names))

    async def close(self) -> None:
        """Let go of the connection."""
        await self._client.aclose()

    async def _asked(self, answer: Awaitable[T]) -> T:
        with _heard():
            return await answer


@contextmanager
def _heard() -> Any:
    try:
        yield
    except Exception as error:
        raise translated(error) from error


async def settle(engine: AsyncEngine, rows: Rows, outcomes: Outcomes) -> int:
    """Write those that wait, until `WRITING_S` are over; returns how many were written. Safe to repeat, and beside
    others that do the same.

    One whose record somebody has locked waits on. One whose record was brought back meanwhile, or is done, is let go.
    Raises `RecordsUnavailable` or `StoreUnavailable`; what is left then still waits.
    """
    written, until = 0, time.monotonic() + WRITING_S
    async for page in outcomes.pages():
        over = []
        try:
            for name, text in page.items():
                if time.monotonic() >= until:
                    return written
                word = await _settle_one(engine, rows, name, text)
                written += word == "written"
                if word != "locked":
                    over.append(name)
        finally:
            await outcomes.forget(over)
    return written


async def _settle_one(engine: AsyncEngine, rows: Rows, name: str, text: str) -> str:
    """Says `written`, `over` when there is nothing to write it on, or `locked`."""
    source = rows.source
    try:
        parked = Parked.read(text, rows)
        guard = [rows.named([rows.to_id(parked.id)]), rows.status_is(source.stuck), stamp(rows).in_(parked.stamps)]
    except (ValueError, KeyError, TypeError) as error:
        return _dropped(rows, name, f"it cannot be read: {error!r}")
    refusal: HubError | None = None
    for outcome in parked.outcome.with_plainer_reasons():
        try:
            async with asyncio.timeout(OUTCOME_S), engine.begin() as connection:
                return await _write(connection, rows, guard, outcome)
        except Exception as error:
            known = in_a_sentence(source, error)
            if isinstance(known, RecordsUnavailable):
                raise known from error
            refusal = refusal or known
    return _dropped(rows, name, str(refusal))


def _dropped(rows: Rows, name: str, why: str) -> str:
    """It will never be accepted; the record itself is found by the next pass over what is stuck."""
    _log.error("parked outcome dropped source=%s outcome=%r why=%s", rows.source.name, name, why)
    return "dropped"


async def _write(connection: AsyncConnection, rows: Rows, guard: list[sa.ColumnElement[bool]], outcome: Outcome) -> str:
    ours = sa.select(rows.id).where(*guard)
    if (await connection.execute(ours.with_for_update(skip_locked=True, key_share=True))).first() is None:
        return "over" if (await connection.execute(ours)).first() is None else "locked"
    done = await connection.execute(sa.update(rows.table).where(*guard).values(outcome.change(rows)))
    return "written" if done.rowcount else "over"

"""Parked outcomes: the results of handled records, kept in Redis while the database does not answer."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from hub.errors import HubError, RecordsUnavailable
from hub.recovery.faults import as_hub_error
from hub.recovery.rows import Rows
from hub.settings import Settings
from hub.settings.cluster import prefix_for
from hub.settings.knobs import read_redis_url
from hub.store.connection import make_client
from hub.store.faults import translated
from hub.store.keys import Keys

T = TypeVar("T")

LIFETIME_S = 7 * 86_400  # parked outcomes are kept this long; recovery resets their records much earlier
PAGE = 100
WRITING_S = 25.0  # one call of `settle` takes this long at most; the next call writes the other outcomes
OUTCOME_S = 15.0  # time limit for writing one outcome
SHORT = 200  # characters to which a reason is cut: they fit into the shortest text type of MySQL, of 255 bytes
_log = logging.getLogger("hub.recovery")


def stamp(rows: Rows) -> sa.ColumnElement[Any]:
    """Return the clause for the time of the last update, whose value marks a claim; in SQLite its plain text."""
    if isinstance(rows.updated_at.type, sqlite.DATETIME):
        return sa.type_coerce(rows.updated_at, sa.String())
    return rows.updated_at


@dataclass(frozen=True)
class Outcome:
    """The result of handling a record, to be written into it: a status, an error if it failed, other columns."""

    status: str | int
    error: str | None = None
    values: Mapping[str, Any] = field(default_factory=dict)

    def change(self, rows: Rows) -> dict[str, Any]:
        """Return the columns to set in the record, with their values."""
        change: dict[str, Any] = {rows.status.name: self.status, **self.values, rows.updated_at.name: rows.clock.now}
        if self.error is not None and rows.error is not None:
            # Lone halves of surrogate pairs are replaced: no driver accepts them.
            change[rows.error.name] = rows.error_text(self.error.encode("utf-8", "replace").decode())
        return change

    def with_plainer_reasons(self) -> Iterator[Outcome]:
        """Yield the outcome, then copies whose error more columns accept: in ASCII, then cut to `SHORT`, then none."""
        yield self
        if self.error is not None:
            escaped = self.error.encode("ascii", "backslashreplace").decode()
            yield replace(self, error=escaped)
            yield replace(self, error=escaped[:SHORT])
            yield replace(self, error=None)

    @property
    def is_plain(self) -> bool:
        """Return whether the outcome's column values can be parked as JSON and read back unchanged."""
        try:
            return bool(json.loads(json.dumps(dict(self.values))) == self.values)
        except (TypeError, ValueError, RecursionError):
            return False


@dataclass(frozen=True)
class Parked:
    """A parked outcome with the id of its record. It is written only if the record still has one of the stamps."""

    id: str
    stamps: tuple[Any, ...]
    outcome: Outcome

    @property
    def name(self) -> str:
        """Return the field in the Redis hash under which the outcome is kept: one for each claim of a record."""
        return f"{self.id} {_plain(self.stamps[0])}"

    def text(self) -> str:
        """Return the parked outcome as JSON, as Redis keeps it."""
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
        """Return the parked outcome from its JSON; raises `ValueError`, `KeyError` or `TypeError` for other text."""
        kept = json.loads(text)
        as_text = stamp(rows) is not rows.updated_at
        stamps = tuple(each if as_text else datetime.fromisoformat(each) for each in kept["stamps"])
        return cls(str(kept["id"]), stamps, Outcome(kept["status"], kept["error"], kept["values"]))


def _plain(each: Any) -> Any:
    return each.isoformat() if isinstance(each, datetime) else each


class Outcomes:
    """The parked outcomes of one source. Every method raises `StoreUnavailable` when Redis does not answer."""

    def __init__(self, client: Any, keys: Keys, source: str) -> None:
        self._client = client
        self._key = keys.outcomes(source)

    @classmethod
    def at(cls, url: str, prefix: str, source: str) -> Outcomes:
        """Return the parked outcomes in the Redis of this URL, over a new connection; raises `BadSetting`."""
        redis_url = read_redis_url(url)
        settings = Settings(redis_url=redis_url, key_prefix=prefix_for(redis_url, prefix))
        return cls(make_client(redis_url, settings), Keys(settings.key_prefix), source)

    async def park(self, parked: Parked) -> None:
        """Keep a parked outcome in Redis. Safe to repeat."""
        pipe = self._client.pipeline(transaction=True)
        pipe.hset(self._key, parked.name, parked.text())
        pipe.expire(self._key, LIFETIME_S)
        await self._answer(pipe.execute())

    async def count(self) -> int:
        """Return how many outcomes of the source are parked in Redis."""
        return int(await self._answer(self._client.hlen(self._key)))

    async def pages(self) -> AsyncIterator[dict[str, str]]:
        """Yield all parked outcomes, about `PAGE` at a time, as a dict of name to JSON."""
        cursor = 0
        while True:
            cursor, found = await self._answer(self._client.hscan(self._key, cursor, count=PAGE))
            if found:
                yield found
            if not cursor:
                return

    async def forget(self, names: Iterable[str]) -> None:
        """Remove the parked outcomes of these names from Redis: they are written, or can never be written."""
        if names := list(names):
            await self._answer(self._client.hdel(self._key, *names))

    async def close(self) -> None:
        """Close the connection to Redis."""
        await self._client.aclose()

    async def _answer(self, answer: Awaitable[T]) -> T:
        try:
            return await answer
        except Exception as error:
            raise translated(error) from error


async def settle(engine: AsyncEngine, rows: Rows, outcomes: Outcomes) -> int:
    """Write parked outcomes into the database for `WRITING_S` at most; return how many were written.

    Safe to repeat, and while another process does the same. An outcome whose record is locked stays parked. An outcome
    whose record was reset or finished meanwhile is removed. Raises `RecordsUnavailable` or `StoreUnavailable`; the
    outcomes not yet written then stay parked.
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
    """Write one parked outcome; return `written`, `locked`, `over` if its record has changed, or `dropped`."""
    source = rows.source
    try:
        parked = Parked.read(text, rows)
        guard = [rows.named([rows.to_id(parked.id)]), rows.status == source.stuck, stamp(rows).in_(parked.stamps)]
    except (ValueError, KeyError, TypeError) as error:
        return _dropped(rows, name, f"it cannot be read: {error!r}")
    refusal: HubError | None = None
    for outcome in parked.outcome.with_plainer_reasons():
        try:
            async with asyncio.timeout(OUTCOME_S), engine.begin() as connection:
                return await _write(connection, rows, guard, outcome)
        except Exception as error:
            known = as_hub_error(source, error)
            if isinstance(known, RecordsUnavailable):
                raise known from error
            refusal = refusal or known
    return _dropped(rows, name, str(refusal))


def _dropped(rows: Rows, name: str, why: str) -> str:
    """Log that the database will never accept the outcome; return `dropped`. A pass of recovery resets its record."""
    _log.error("parked outcome dropped source=%s outcome=%r why=%s", rows.source.name, name, why)
    return "dropped"


async def _write(connection: AsyncConnection, rows: Rows, guard: list[sa.ColumnElement[bool]], outcome: Outcome) -> str:
    ours = sa.select(rows.id).where(*guard)
    if (await connection.execute(ours.with_for_update(skip_locked=True, key_share=True))).first() is None:
        return "over" if (await connection.execute(ours)).first() is None else "locked"
    done = await connection.execute(sa.update(rows.table).where(*guard).values(outcome.change(rows)))
    return "written" if done.rowcount else "over"

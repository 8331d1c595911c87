"""The rows of a source: the columns of its table, and the SQL clauses that statements need."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from hub.recovery.clocks import Clock
from hub.recovery.models import SqlSource


@dataclass(frozen=True)
class Rows:
    """The columns of a source's table, as the database describes them, and the SQL clauses that statements need.

    A pass of recovery asks for `status = ... AND updated_at < ... ORDER BY updated_at`, so it needs an index on
    (status, updated_at); the primary key serves everything else.
    """

    source: SqlSource
    table: sa.Table
    id: sa.Column[Any]
    status: sa.Column[Any]
    updated_at: sa.Column[Any]
    error: sa.Column[Any] | None
    attempts: sa.Column[Any] | None
    clock: Clock
    returning: bool
    """Whether an UPDATE of this database can return the rows that it changed."""
    keys: tuple[tuple[str, ...], ...] = ()
    """The columns of each key of the table; read where the source names its id field."""

    @property
    def filter(self) -> tuple[sa.ColumnElement[bool], ...]:
        """Return the clauses of the source's `where`, which select its records in the table."""
        return tuple(self.table.c[name] == value for name, value in self.source.where.items())

    def named(self, ids: Iterable[Any]) -> sa.ColumnElement[bool]:
        """Return the SQL clause that selects the records with these ids.

        Where the id is unique only together with columns that `where` fixes, as in a partitioned table, the clause
        names their values too: the same id elsewhere is another record.
        """
        name = self.id.name
        beside = set() if (name,) in self.keys else {column for key in self.keys if name in key for column in key}
        part = [self.table.c[column] == value for column, value in self.source.where.items() if column in beside]
        return sa.and_(self.id.in_(list(ids)), *part)

    def to_id(self, text: str) -> Any:
        """Return the text as a value of the id column; raises `ValueError`, whose text ends without a dot."""
        kind = self.id.type
        try:
            if isinstance(kind, sa.Integer):
                return whole(text, kind, self.source)
            text.encode()  # raises for lone halves of surrogate pairs
            return uuid.UUID(text) if isinstance(kind, sa.Uuid) else text
        except ValueError:
            shape = "UUID" if isinstance(kind, sa.Uuid) else "text in Unicode"
            shape = "whole number of its size" if isinstance(kind, sa.Integer) else shape
            name = f"source {self.source.name}, {self.id.name}"
            raise ValueError(f"{name}: {text[:100]!r} is no id here; each is a {shape}") from None

    def error_text(self, text: str) -> str:
        """Return the text, cut to the length of the error column."""
        length = getattr(self.error.type, "length", None) if self.error is not None else None
        return text.replace("\0", "")[:length]


def whole(text: str, kind: sa.Integer, source: SqlSource) -> int:
    """Return the text as a whole number; raises `ValueError` if it is none or too large for the column."""
    if not re.fullmatch("-?[0-9]{1,19}", text):
        raise ValueError  # Python would also read 1_0, +1 and digits of other scripts
    number = int(text)
    if not -(room := _room(kind, source)) <= number < room:
        raise ValueError
    return number


def _room(kind: sa.Integer, source: SqlSource) -> int:
    if isinstance(kind, sa.BigInteger) or source.url.startswith("sqlite"):
        return 2**63
    return 2**15 if isinstance(kind, sa.SmallInteger) else 2**31

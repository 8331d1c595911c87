"""Reading of a table's columns from the database, and the check that the source fits the table."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.sqlite import DATETIME
from sqlalchemy.engine import Connection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from hub.errors import SourceRefused
from hub.recovery.clocks import CLOCKS
from hub.recovery.engines import reading
from hub.recovery.faults import translated_errors
from hub.recovery.models import SqlSource
from hub.recovery.rows import Rows, whole
from hub.recovery.zones import check_zone, refuse_to_guess


class _Written(DATETIME):
    """The type of an SQLite column for times, which SQLite keeps as text; a text that is no time is read as text."""

    cache_ok = True

    def result_processor(self, dialect: Any, coltype: Any) -> Any:
        return _read_time


class _Text(_Written):
    """The type of an SQLite column that holds times as text; it is read as text."""

    def result_processor(self, dialect: Any, coltype: Any) -> Any:
        return None


_WRITTEN: sa.DateTime = _Written()  # type: ignore[no-untyped-call]
_TEXT: sa.DateTime = _Text()  # type: ignore[no-untyped-call]


def _read_time(value: Any) -> Any:
    try:
        return datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return value


async def reflect(engine: AsyncEngine, source: SqlSource) -> Rows:
    """Return the `Rows` of a source; raises `SourceRefused` for a table not as declared, or `RecordsUnavailable`."""
    with translated_errors(source):
        async with reading(engine) as connection:
            found = await connection.run_sync(_find, source)
            await check_zone(connection, source)
            rows = _rows(found, source, engine)
            await refuse_to_guess(connection, rows)
    return rows


@dataclass(frozen=True)
class _FoundTable:
    """A table as the database describes it: its columns, those that the database computes, and its keys."""

    table: sa.Table
    computed: dict[str, Any]
    """The columns that the database computes."""
    keys: tuple[tuple[str, ...], ...]
    """The columns of each key; read where the source names its id field."""


def _find(connection: Connection, source: SqlSource) -> _FoundTable:
    """Return the table as the database describes it; raises `SourceRefused` for a missing schema or table."""
    schema, _, name = source.table.rpartition(".")
    inspector = sa.inspect(connection)
    with warnings.catch_warnings():
        # SQLAlchemy warns of columns of a type that it does not know; the source does not use them.
        warnings.simplefilter("ignore", sa.exc.SAWarning)
        if schema and not inspector.has_schema(schema):
            raise source.refused("table", f"there is no schema {schema!r}")
        if not inspector.has_table(name, schema or None):
            raise source.refused("table", f"there is no table {source.table!r}")
        columns = inspector.get_columns(name, schema or None)
        primary = inspector.get_pk_constraint(name, schema or None)["constrained_columns"]
        keys = _keys(inspector, name, schema or None) if source.id_field is not None else ()
    made = [
        sa.Column(
            each["name"],
            _kind(each["type"], connection.dialect.name, is_time=each["name"] == source.updated_at_field),
            primary_key=each["name"] in primary,
            nullable=each.get("nullable", True),
        )
        for each in columns
    ]
    computed = {each["name"]: each["computed"] for each in columns if each.get("computed")}
    return _FoundTable(sa.Table(name, sa.MetaData(), *made, schema=schema or None), computed, keys)


def _keys(inspector: sa.Inspector, name: str, schema: str | None) -> tuple[tuple[str, ...], ...]:
    """Return the columns of each primary or unique key of a table; an index on a part of the rows is not counted."""
    primary = inspector.get_pk_constraint(name, schema)["constrained_columns"]
    found = [primary, *(each["column_names"] for each in inspector.get_unique_constraints(name, schema))]
    for index in inspector.get_indexes(name, schema):
        partial = any(option.endswith("_where") for option in index.get("dialect_options", {}))
        if index["unique"] and not partial and None not in index["column_names"]:
            found.append([str(column) for column in index["column_names"]])
    return tuple(dict.fromkeys(tuple(columns) for columns in found if columns))


def _kind(kind: Any, dialect: str, *, is_time: bool) -> Any:
    if isinstance(kind, postgresql.DOMAIN):
        return _kind(kind.data_type, dialect, is_time=is_time)
    if dialect == "sqlite" and is_time and isinstance(kind, sa.String):
        return _TEXT  # SQLite has no type for times
    return _WRITTEN if dialect == "sqlite" and isinstance(kind, sa.DateTime) else kind


def _rows(found: _FoundTable, source: SqlSource, engine: AsyncEngine) -> Rows:
    table, computed = found.table, found.computed
    for field in ("status_field", "updated_at_field", "error_field", "attempts_field"):
        if getattr(source, field) in computed:
            raise source.refused(field, f"the column {getattr(source, field)!r} is computed by the database")
    status = _column(table, source, "status_field", source.status_field)
    updated_at = _column(table, source, "updated_at_field", source.updated_at_field)
    if not isinstance(updated_at.type, sa.DateTime):
        raise _wrong(source, "updated_at_field", updated_at, "a date with a time (TIMESTAMP or DATETIME)")
    for field in ("stuck", "becomes", "failed"):
        check_status(status, source, field, getattr(source, field))
    for name, value in source.where.items():
        _check_wanted(_column(table, source, "where", name), source, value)
    return Rows(
        source=source,
        table=table,
        id=_id(table, source),
        status=status,
        updated_at=updated_at,
        error=_error(table, source),
        attempts=_attempts(table, source),
        clock=CLOCKS[engine.dialect.name](updated_at, source.time_zone),
        returning=engine.dialect.update_returning,
        keys=found.keys,
    )


def _column(table: sa.Table, source: SqlSource, field: str, name: str) -> sa.Column[Any]:
    if name not in table.c:
        raise source.refused(field, f"{source.table} has no column {name!r}; it has {_listed(table.c.keys())}")
    return table.c[name]


def _wrong(source: SqlSource, field: str, column: sa.Column[Any], wanted: str) -> SourceRefused:
    kind = str(column.type) if not isinstance(column.type, sa.types.NullType) else "a type that is not known here"
    return source.refused(field, f"the column {column.name!r} is {kind}, not {wanted}")


def _listed(names: Any) -> str:
    first = list(names)[:20]
    return ", ".join([*map(str, first), *(["..."] if len(names) > len(first) else [])])


def _id(table: sa.Table, source: SqlSource) -> sa.Column[Any]:
    primary = list(table.primary_key.columns)
    if source.id_field is not None:
        column = _column(table, source, "id_field", source.id_field)
    elif len(primary) == 1:
        column = primary[0]
    else:
        keys = f"the primary key {_listed([each.name for each in primary])}" if primary else "no primary key"
        raise source.refused("id_field", f"{source.table} has {keys}; name the one column that tells records apart")
    if not isinstance(column.type, sa.Integer | sa.String | sa.Uuid) or isinstance(column.type, sa.Enum):
        raise _wrong(source, "id_field", column, "a whole number, a text or a UUID")
    return column


def check_status(column: sa.Column[Any], source: SqlSource, field: str, status: str | int) -> None:
    """Raise `SourceRefused` about `field` if the column cannot hold this status."""
    kind = column.type
    if isinstance(kind, sa.Integer):
        if not isinstance(status, int):
            raise source.refused(field, f"the column {column.name!r} holds whole numbers, and it is {status!r}")
        _check_size(column, source, field, status)
        return
    if not isinstance(kind, sa.String):
        raise _wrong(source, "status_field", column, "an enum, a text or a whole number")
    if not isinstance(status, str):
        raise source.refused(field, f"the column {column.name!r} holds texts, and it is {status!r}")
    if isinstance(kind, sa.Enum):
        if status not in kind.enums:
            raise source.refused(field, f"{column.name!r} may be {_listed(kind.enums)}, and not {status!r}")
    elif kind.length is not None and len(status) > kind.length:
        raise source.refused(field, f"{status!r} is longer than the {kind.length} characters of {column.name!r}")


def _check_wanted(column: sa.Column[Any], source: SqlSource, value: bool | int | str) -> None:
    kind = column.type
    fits = {
        bool: isinstance(kind, sa.Boolean),
        int: isinstance(kind, sa.Integer),
        str: isinstance(kind, sa.String),
    }[type(value)]
    if not fits:
        raise _wrong(source, "where", column, f"one that {value!r} may be in")
    if isinstance(kind, sa.Enum) and value not in kind.enums:
        raise source.refused("where", f"{column.name!r} may be {_listed(kind.enums)}, and not {value!r}")
    if isinstance(kind, sa.Integer):
        _check_size(column, source, "where", value)


def _check_size(column: sa.Column[Any], source: SqlSource, field: str, value: Any) -> None:
    """Raise `SourceRefused` about `field` if this whole number is too large for the column."""
    try:
        whole(str(value), column.type, source)  # type: ignore[arg-type]
    except ValueError:
        raise source.refused(field, f"{value} does not fit into {column.name!r}, which is {column.type}") from None


def _error(table: sa.Table, source: SqlSource) -> sa.Column[Any] | None:
    if source.error_field is None:
        return None
    column = _column(table, source, "error_field", source.error_field)
    if not isinstance(column.type, sa.String) or isinstance(column.type, sa.Enum):
        raise _wrong(source, "error_field", column, "a text")
    if column.type.length is not None and len(source.error_text) > column.type.length:
        raise source.refused("error_text", f"it is longer than the {column.type.length} characters of {column.name!r}")
    return column


def _attempts(table: sa.Table, source: SqlSource) -> sa.Column[Any] | None:
    if source.attempts_field is None:
        return None
    column = _column(table, source, "attempts_field", source.attempts_field)
    if not isinstance(column.type, sa.Integer):
        raise _wrong(source, "attempts_field", column, "a whole number")
    _check_size(column, source, "max_attempts", source.max_attempts)
    return column


async def check_unique(connection: AsyncConnection, rows: Rows) -> None:
    """Raise `SourceRefused` if two records of the source have, or could have, the same value in `id_field`.

    A key of the table over `id_field` alone makes it unique. So does a key of `id_field` and columns that `where`
    fixes: with `where = {queue = "mail"}` the key (queue, id) keeps `id` unique. A table without any key, and a view,
    is searched for two records with one id, which reads all records of the source.
    """
    name = rows.id.name
    if rows.source.id_field is None:
        return
    fixed = rows.source.where.keys()
    if any([column for column in key if column == name or column not in fixed] == [name] for key in rows.keys):
        return
    if rows.keys:
        shown = " or ".join(", ".join(key) for key in rows.keys)
        why = f"nothing keeps {name!r} unique in {rows.source.table}, whose key is {shown}"
        raise rows.source.refused("id_field", f"{why}; name that, or make a unique index on {name!r}")
    named = sa.select(rows.id).where(rows.id.is_not(None), *rows.filter)
    twice = named.group_by(rows.id).having(sa.func.count() > 1).limit(1)
    if (found := (await connection.execute(twice)).first()) is not None:
        why = f"{name!r} is not unique in {rows.source.table}: several records have {str(found[0])[:40]!r}"
        raise rows.source.refused("id_field", f"{why}; name the column that tells them apart")

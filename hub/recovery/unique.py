"""Whether the column that names records tells them apart: two of one name would be reset as one."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.ext.asyncio import AsyncConnection

from hub.recovery.rows import Rows


async def check_unique(connection: AsyncConnection, rows: Rows) -> None:
    """Refuse an `id_field` that names two records alike, or may: where the table has a key, and it is another column.

    Of a table without any key, and of a view, what it holds decides; that is read as a whole.
    """
    name = rows.id.name
    if rows.source.id_field is None:
        return
    keys = await connection.run_sync(_keys, rows)
    if [name] in keys:
        return
    if keys:
        shown = " or ".join(", ".join(key) for key in keys)
        why = f"nothing keeps {name!r} unique in {rows.source.table}, whose key is {shown}"
        raise rows.source.refused("id_field", f"{why}; name that, or make a unique index on {name!r}")
    twice = sa.select(rows.id).where(rows.id.is_not(None)).group_by(rows.id).having(sa.func.count() > 1).limit(1)
    if (found := (await connection.execute(twice)).first()) is not None:
        why = f"{name!r} is not unique in {rows.source.table}: several records have {str(found[0])[:40]!r}"
        raise rows.source.refused("id_field", f"{why}; name the column that tells them apart")


def _keys(connection: Connection, rows: Rows) -> list[list[str]]:
    """The columns of each key of the table."""
    inspector, (name, schema) = sa.inspect(connection), (rows.table.name, rows.table.schema)
    primary = list(inspector.get_pk_constraint(name, schema)["constrained_columns"])
    found = [list(each["column_names"]) for each in inspector.get_unique_constraints(name, schema)]
    for index in inspector.get_indexes(name, schema):
        partial = any(option.endswith("_where") for option in index.get("dialect_options", {}))
        if index["unique"] and not partial and None not in index["column_names"]:
            found.append([str(column) for column in index["column_names"]])
    keys = [primary, *found] if primary else found
    return [key for number, key in enumerate(keys) if key not in keys[:number]]

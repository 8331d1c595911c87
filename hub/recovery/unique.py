"""The check that the id column is unique: two records with one id would be reset as one."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from hub.recovery.rows import Rows


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

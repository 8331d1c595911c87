"""Opening records: of every kind, without connecting, and what is said where that can never work."""

from __future__ import annotations

import sys

import pytest

from hub.errors import SourceRefused
from hub.recovery.hashes import HashRecords
from hub.recovery.kinds import open_records
from hub.recovery.models import RedisSource, Source, SqlSource, TaskSource
from hub.recovery.sql import SqlRecords
from hub.recovery.tasks import TaskRecords

SQL = {"name": "orders", "table": "orders"}
NOWHERE = "redis://127.0.0.1:9"


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        (SqlSource(**SQL, url="postgresql+asyncpg://nobody@127.0.0.1:9/none"), SqlRecords),
        (SqlSource(**SQL, url="sqlite+aiosqlite:////nowhere/none.db"), SqlRecords),
        (RedisSource(name="r", index="i", key="k:{id}"), HashRecords),
        (RedisSource(name="r", index="i", key="k:{id}", url=NOWHERE), HashRecords),
        (TaskSource(name="t"), TaskRecords),
    ],
)
async def test_sources_of_every_kind_can_be_opened_and_closed_without_a_connection(hub, source, kind):
    records = open_records(source, hub.store)
    assert type(records) is kind
    assert records.source is source
    await records.close()


@pytest.mark.parametrize(
    "source",
    [
        SqlSource(**SQL, url="sqlite+aiosqlite:////nowhere/none.db"),
        RedisSource(name="r", index="i", key="k:{id}", url=NOWHERE),
    ],
)
async def test_a_source_outside_the_store_of_the_hub_needs_no_store(source):
    await open_records(source, None).close()


@pytest.mark.parametrize("source", [RedisSource(name="r", index="i", key="k:{id}"), TaskSource(name="r")])
def test_a_source_in_the_store_of_the_hub_needs_the_store(source):
    with pytest.raises(SourceRefused, match="source r, kind: its records are in the store of the hub, which is not op"):
        open_records(source, None)


def test_without_sqlalchemy_a_sql_source_is_refused_with_the_package_to_install(monkeypatch):
    for name in list(sys.modules):
        if name.partition(".")[0] == "sqlalchemy" or name in ("hub.recovery.sql", "hub.recovery.rows"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(SourceRefused, match=r"source orders, kind: .*pip install 'capacity-hub\[sql\]'\."):
        open_records(SqlSource(**SQL, url="sqlite+aiosqlite:///x"), None)


@pytest.mark.parametrize(
    "source",
    [
        SqlSource(**SQL, url="postgresql+psycopg2://u:hush@h/d"),
        SqlSource(**SQL, url="nothing"),
        RedisSource(name="orders", index="i", key="k:{id}", url="amqp://u:hush@h"),
    ],
)
async def test_an_impossible_address_is_refused_at_once(hub, source: Source):
    with pytest.raises(SourceRefused, match="source orders, url: ") as refused:
        open_records(source, hub.store)
    assert "hush" not in str(refused.value)

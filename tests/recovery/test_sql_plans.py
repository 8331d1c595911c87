"""The queries of a pass use the index on (status, updated_at) that it documents, for any number of rows."""

import json

import pytest
from sqlalchemy import event

DONE, FRESH, STUCK = 20_000, 200, 100


@pytest.fixture
async def records(database, opened):
    database.make_jobs()
    database.fill(DONE, status="Done")
    database.fill(FRESH, age_s=10, first=DONE + 1)
    database.fill(STUCK, first=DONE + FRESH + 1)
    database.execute("ANALYZE")
    return opened(database.source())


CALLS = {
    "count": lambda records: records.count(),
    "look": lambda records: records.look(20),
    "reset": lambda records: records.reset(),
}


@pytest.mark.parametrize("call", CALLS)
async def test_a_pass_uses_the_index_of_the_table(database, records, call):
    await records.check()
    asked = []

    @event.listens_for(records.engine.sync_engine, "before_cursor_execute")
    def _(connection, cursor, statement, parameters, context, many):
        if statement.startswith(("SELECT", "UPDATE")):
            asked.append((statement, parameters))

    await CALLS[call](records)
    assert len(asked) == (2 if call == "reset" else 1)
    plans = [await plan(database, records, *each) for each in asked]
    assert "jobs_by_status" in plans[0], plans[0]
    for each in plans:
        assert not any(scan in each for scan in ("Seq Scan", "SCAN")), each


async def plan(database, records, statement, parameters):
    """Return the plan of the database for a statement."""
    verb = "EXPLAIN (FORMAT JSON)" if database.kind == "postgresql" else "EXPLAIN QUERY PLAN"
    async with records.engine.connect() as connection:
        found = (await connection.exec_driver_sql(f"{verb} {statement}", parameters)).all()
    return json.dumps(found[0][0]) if database.kind == "postgresql" else "\n".join(row[-1] for row in found)

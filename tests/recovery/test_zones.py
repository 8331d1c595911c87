"""The clock of a column without a time zone: it is not guessed, and nothing fresh is reset."""

import pytest

from hub.errors import SourceRefused
from hub.recovery.models import Reset
from tests.recovery.loop.world import handled, nothing

NEW_YORK = "America/New_York"


async def refused(question):
    """Return what is refused, and check that it is about the zone."""
    with pytest.raises(SourceRefused) as error:
        await question
    assert str(error.value).startswith("source jobs, time_zone: "), error.value
    return str(error.value)


def in_zone(pg, zone=NEW_YORK):
    """The clocks of this database are there from now on."""
    pg.execute(f"ALTER DATABASE {pg.name} SET timezone = '{zone}'")
    pg.make_jobs(updated_at="timestamp DEFAULT now()")


async def test_a_row_of_this_second_is_not_reset_where_the_database_is_in_new_york(pg, opened):
    """Read as UTC it is five hours old, or four."""
    in_zone(pg)
    pg.execute("INSERT INTO jobs (id, status) VALUES (1, 'Processing')")
    records = opened(pg.source())
    for question in (records.check, records.count, records.reset, lambda: records.look(1)):
        said = await refused(question())
        assert f'write time_zone = "{NEW_YORK}"' in said
    assert pg.statuses() == {"Processing": 1}
    named = opened(pg.source(time_zone=NEW_YORK))
    await named.check()
    assert await named.reset() == Reset()
    pg.execute("UPDATE jobs SET updated_at = localtimestamp - interval '61 minutes'")
    assert await named.reset() == Reset(reset=("1",))


async def test_the_refusal_says_how_old_the_newest_record_would_be_in_each_zone(pg, opened):
    in_zone(pg, "Etc/GMT+5")
    pg.execute("INSERT INTO jobs (id, status) VALUES (1, 'Processing')")
    pg.add(2, at="localtimestamp - interval '3 hours'")
    said = await refused(opened(pg.source()).check())
    assert "the newest record is 5 h 0 min old if it is in UTC, and 0 min old if it is in Etc/GMT+5" in said


async def test_an_empty_table_with_an_ambiguous_time_zone_is_refused_too(pg, opened):
    in_zone(pg)
    await refused(opened(pg.source()).check())
    await opened(pg.source(time_zone="UTC")).check()


@pytest.mark.parametrize("column", ["timestamptz", "timestamp"])
async def test_without_an_ambiguous_time_zone_none_needs_to_be_declared(pg, opened, column):
    zone = NEW_YORK if column == "timestamptz" else "UTC"
    pg.execute(f"ALTER DATABASE {pg.name} SET timezone = '{zone}'")
    pg.make_jobs(updated_at=column)
    pg.add(1, at="now()")
    records = opened(pg.source())
    await records.check()
    assert await records.reset() == Reset()


async def test_a_reset_is_refused_if_a_role_that_may_write_the_table_has_another_time_zone(pg, opened):
    """The hub has a role of its own, whose sessions are in UTC."""
    pg.execute(f"ALTER DATABASE {pg.name} SET timezone = 'UTC'")
    pg.make_jobs(updated_at="naive")
    shop, guest = f"shop_{pg.name}", f"guest_{pg.name}"
    pg.execute(f"CREATE ROLE {shop}; CREATE ROLE {guest}; GRANT INSERT, UPDATE ON jobs TO {shop}")
    try:
        pg.execute(f"ALTER ROLE {guest} SET timezone = 'Asia/Tokyo'")  # it may not write
        await opened(pg.source()).check()
        pg.execute(f"ALTER ROLE {shop} SET timezone = '{NEW_YORK}'")
        assert NEW_YORK in await refused(opened(pg.source()).reset())
    finally:
        pg.execute(f"DROP OWNED BY {shop}; DROP ROLE {shop}; DROP ROLE {guest}")


@pytest.mark.parametrize(("zone", "written"), [("UTC", NEW_YORK), (NEW_YORK, "UTC")])
async def test_check_refuses_a_declared_zone_that_contradicts_the_rows(pg, opened, zone, written):
    in_zone(pg)
    pg.add(1, at=f"clock_timestamp() AT TIME ZONE '{written}'")
    said = await refused(opened(pg.source(time_zone=zone)).check())
    assert f"if it is in {zone}" in said
    assert f"if it is in {written}" in said
    await opened(pg.source(time_zone=written)).check()


async def test_check_refuses_rows_that_are_in_the_future_in_every_zone(database, opened):
    """An application east of Greenwich writes its own clock into a database in UTC."""
    database.make_jobs(updated_at="naive")
    database.add(1, status="Pending", age_s=7200)
    await opened(database.source()).check()
    later = {"postgresql": "now() + interval '2 hours'", "sqlite": "datetime('now', '+2 hours')"}
    database.add(2, status="Pending", at=later[database.kind])
    said = await refused(opened(database.source()).check())
    assert "the newest record is 2 h 0 min ahead of the database's clock if it is in UTC" in said


async def test_the_loop_does_not_start_with_an_ambiguous_time_zone(pg):
    in_zone(pg)
    pg.execute("INSERT INTO jobs (id, status) VALUES (1, 'Pending')")
    await refused(handled(pg.source(), nothing))
    assert (await handled(pg.source(time_zone=NEW_YORK), nothing)).done == 1

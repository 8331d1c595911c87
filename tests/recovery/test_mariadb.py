"""Recovery in MariaDB: what holds in PostgreSQL and SQLite holds there, on a real server whose zone is not UTC."""

from __future__ import annotations

import asyncmy
import pytest

from hub.recovery.models import Reset
from tests.recovery.databases import Database
from tests.recovery.test_sql import (
    test_a_list_of_stuck_records_is_bounded_and_may_begin_above_the_threshold,
    test_a_record_that_the_database_refuses_to_change_does_not_stop_the_reset_of_others,
    test_a_reset_by_ids_resets_only_stuck_records,
    test_a_status_may_be_a_whole_number,
    test_a_status_may_be_an_enum_or_a_text,
    test_an_id_may_be_a_number_a_text_or_a_uuid,
    test_batches_are_bounded_and_begin_with_the_longest_stuck,
    test_fields_and_tables_may_have_any_name,
    test_listing_stuck_records_shows_what_a_reset_would_touch_and_changes_nothing,
    test_resets_are_counted_and_a_record_at_the_limit_fails,
    test_stuck_records_are_reset_and_others_stay_as_they_are,
    test_the_reason_is_written_where_the_source_says,
)
from tests.recovery.test_sql_races import (
    test_a_killed_service_leaves_only_whole_batches,
    test_concurrent_processes_reset_each_record_once,
    test_concurrent_services_reset_each_record_once,
)
from tests.recovery.test_sql_refusals import refusal
from tests.recovery.test_sql_refusals import (
    test_an_id_that_is_unique_within_the_filter_of_the_source_is_accepted as test_id_in_a_part,
)

__all__ = [
    "test_a_killed_service_leaves_only_whole_batches",
    "test_a_list_of_stuck_records_is_bounded_and_may_begin_above_the_threshold",
    "test_a_record_that_the_database_refuses_to_change_does_not_stop_the_reset_of_others",
    "test_a_reset_by_ids_resets_only_stuck_records",
    "test_a_status_may_be_a_whole_number",
    "test_a_status_may_be_an_enum_or_a_text",
    "test_an_id_may_be_a_number_a_text_or_a_uuid",
    "test_batches_are_bounded_and_begin_with_the_longest_stuck",
    "test_concurrent_processes_reset_each_record_once",
    "test_concurrent_services_reset_each_record_once",
    "test_fields_and_tables_may_have_any_name",
    "test_id_in_a_part",
    "test_listing_stuck_records_shows_what_a_reset_would_touch_and_changes_nothing",
    "test_resets_are_counted_and_a_record_at_the_limit_fails",
    "test_stuck_records_are_reset_and_others_stay_as_they_are",
    "test_the_reason_is_written_where_the_source_says",
]


@pytest.fixture
def database(mariadb: Database) -> Database:
    return mariadb


@pytest.mark.parametrize("column", ["aware", "naive"])
async def test_times_are_in_utc_in_any_time_zone_of_the_server(mariadb, opened, column):
    mariadb.make_jobs(updated_at=column)
    mariadb.add(1)
    mariadb.add(2, age_s=600)
    (found,) = await opened(mariadb.source()).look(10)
    assert (found.id, round(found.age_s)) == ("1", pytest.approx(7200, abs=30))
    assert await opened(mariadb.source()).reset() == Reset(reset=("1",))
    assert {name: (job.status, job.fresh) for name, job in mariadb.jobs().items()} == {
        "1": ("Pending", True), "2": ("Processing", False),
    }  # fmt: skip


async def test_a_row_locked_by_another_session_is_left_alone(mariadb, opened):
    mariadb.make_jobs()
    mariadb.add(1, 2, 3)
    somebody = await asyncmy.connect(unix_socket=str(mariadb.place.socket), user="root", db=mariadb.name)
    async with somebody.cursor() as cursor:
        await cursor.execute("SELECT * FROM jobs WHERE id = 2 FOR UPDATE")
    records = opened(mariadb.source())
    assert await records.reset() == Reset(reset=("1", "3"))
    await somebody.rollback()
    somebody.close()
    assert await records.reset() == Reset(reset=("2",))


ZERO_DATES = ("0000-00-00 00:00:00", "2022-11-00 20:59:22", "2022-00-03 00:00:00")


@pytest.mark.parametrize("column", ["datetime(6)", "datetime", "timestamp(6) NULL"])
@pytest.mark.parametrize("zero", ZERO_DATES)
async def test_a_zero_date_counts_as_no_time(mariadb, opened, column, zero):
    """`ls` shows exactly what `reset` touches, and `check` names the value."""
    mariadb.make_jobs(updated_at=column)
    mariadb.add(1)
    lenient = "SET STATEMENT sql_mode = '' FOR INSERT INTO jobs (id, status, updated_at) VALUES"
    mariadb.execute(f"{lenient} (2, 'Processing', '{zero}')")
    records = opened(mariadb.source())
    assert [stuck.id for stuck in await records.look(10)] == ["1"]
    assert [stuck.id for stuck in await records.look(10, ids=["1", "2"])] == ["1"]
    assert await records.count() == 1
    said = await refusal(records)
    assert said.startswith("updated_at_field: 'updated_at' holds '")
    assert said.endswith("', which is no time, so that its record is never found; write one, or NULL.")
    assert await records.reset(["1", "2"]) == Reset(reset=("1",))
    assert await records.reset() == Reset()
    assert mariadb.statuses() == {"Pending": 1, "Processing": 1}

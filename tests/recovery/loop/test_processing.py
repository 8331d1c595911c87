"""The processing loop: claims, handlers, and what becomes of records."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest
import sqlalchemy as sa

from hub.recovery.loop import Counts, SourceRefused, process
from tests.recovery.loop.world import handled, note, notes, nothing, noting, source_of
from tests.world import eventually

pytestmark = pytest.mark.story


async def test_each_record_is_handled_and_its_handlers_writes_are_committed_with_its_status(jobs):
    jobs.add(1, 2, 3, status="Pending")
    counts = await handled(source_of(jobs), noting, batch=2)
    assert jobs.statuses() == {"Done": 3}
    assert notes(jobs) == ["seen 1", "seen 2", "seen 3"]
    assert counts == Counts(claimed=3, done=3)


async def test_records_that_are_not_ready_are_left_alone(jobs):
    jobs.add(1, status="Processing")
    jobs.add(2, status="Failed")
    before = jobs.jobs()
    assert await handled(source_of(jobs), noting) == Counts()
    assert jobs.jobs() == before


async def test_records_updated_longest_ago_are_handled_first(jobs):
    seen = []
    for number, age_s in ((1, 10), (2, 30), (3, 20)):
        jobs.add(number, status="Pending", age_s=age_s)

    async def handler(record, session):
        seen.append(record.id)

    await handled(source_of(jobs), handler, batch=1)
    assert seen == [2, 3, 1]


async def test_while_a_handler_runs_its_record_is_claimed_and_has_a_fresh_time(jobs):
    jobs.add(1, status="Pending")
    seen = []

    async def handler(record, session):
        seen.append((record.id, record["status"], jobs.jobs()["1"].status, jobs.jobs()["1"].fresh))

    await handled(source_of(jobs), handler)
    assert seen == [(1, "Processing", "Processing", True)]


async def test_columns_that_a_handler_returns_are_set_with_the_status(jobs):
    jobs.add(1, 2, status="Pending")

    async def handler(record, session):
        return {"attempts": 7} if record.id == 1 else {"status": "Failed", "error": "not wanted"}

    await handled(source_of(jobs), handler)
    found = jobs.jobs()
    assert (found["1"].status, found["1"].attempts) == ("Done", 7)
    assert (found["2"].status, found["2"].error) == ("Failed", "not wanted")


@pytest.mark.parametrize("returned", [{"nope": 1}, {"id": 2}, {"status": "Processing"}, 5])
async def test_a_handler_that_returns_an_impossible_value_fails_its_record(jobs, returned):
    jobs.add(1, status="Pending")

    async def handler(record, session):
        await note(session, record)
        return returned

    assert (await handled(source_of(jobs), handler)).failed == 1
    assert jobs.jobs()["1"].status == "Failed"
    assert "the handler returned" in jobs.jobs()["1"].error
    assert notes(jobs) == []


async def test_a_handler_that_raises_fails_its_record_with_the_reason_and_its_writes_are_undone(jobs):
    jobs.add(1, 2, status="Pending")

    async def handler(record, session):
        await note(session, record)
        if record.id == 1:
            raise ValueError("no such thing")

    counts = await handled(source_of(jobs), handler)
    assert jobs.jobs()["1"].error == "ValueError: no such thing"
    assert jobs.statuses() == {"Done": 1, "Failed": 1}
    assert notes(jobs) == ["seen 2"]
    assert (counts.done, counts.failed) == (1, 1)


async def test_a_handler_whose_writes_the_database_refuses_fails_its_record(jobs):
    """Not to be handled again for ever."""
    jobs.add(1, 2, status="Pending")

    async def handler(record, session):
        await note(session, record, "same")
        await note(session, record, "same")

    await handled(source_of(jobs), handler)
    assert jobs.statuses() == {"Failed": 2}
    assert "UNIQUE" in jobs.jobs()["1"].error.upper()


async def test_a_reason_is_cut_to_the_length_of_its_column(jobs):
    jobs.execute("DROP TABLE jobs")
    jobs.execute(
        "CREATE TABLE jobs (id integer PRIMARY KEY, status text, updated_at timestamp, error varchar(20), attempts int)"
    )
    jobs.add(1, status="Pending", at=jobs.ago(10, naive=True))

    async def handler(record, session):
        raise ValueError("zero \0 half \ud800 and very long indeed")

    await handled(source_of(jobs, error_text="stuck"), handler)
    assert jobs.jobs()["1"].error == "ValueError: zero  ha"


async def test_a_handler_that_exits_or_cancels_itself_fails_only_its_record(jobs):
    jobs.add(1, 2, 3, status="Pending")

    async def handler(record, session):
        if record.id == 1:
            raise SystemExit(3)
        if record.id == 2:
            raise asyncio.CancelledError

    await handled(source_of(jobs), handler)
    found = jobs.jobs()
    assert [found[i].status for i in "123"] == ["Failed", "Failed", "Done"]
    assert found["1"].error == "SystemExit: 3"
    assert "cancelled" in found["2"].error


async def test_a_handler_may_set_the_status_of_its_record_itself(jobs):
    """Let the handler delete the record, or give it another status, in its own transaction."""
    jobs.add(1, 2, status="Pending")

    async def handler(record, session):
        what = "DELETE FROM jobs" if record.id == 1 else "UPDATE jobs SET status = 'Failed'"
        await session.execute(sa.text(f"{what} WHERE id = {record.id}"))
        await note(session, record)

    counts = await handled(source_of(jobs), handler, batch=1)
    assert jobs.statuses() == {"Failed": 1}
    assert notes(jobs) == ["seen 1", "seen 2"]
    assert (counts.done, counts.lost) == (2, 0)


async def test_the_number_of_concurrent_handlers_is_bounded(jobs):
    jobs.add(*range(8), status="Pending")
    running, most, full = 0, 0, asyncio.Event()

    async def handler(record, session):
        nonlocal running, most
        running += 1
        most = max(most, running)
        if most == 3:
            full.set()
        await full.wait()
        await asyncio.sleep(0.02)
        running -= 1

    await handled(source_of(jobs), handler, batch=8, concurrency=3)
    assert (most, jobs.statuses()) == (3, {"Done": 8})


async def test_a_slow_handler_delays_no_other_record(jobs):
    jobs.add(*range(20), status="Pending")
    others = asyncio.Event()
    seen = []

    async def handler(record, session):
        if record.id == 0:
            await others.wait()
        seen.append(record.id)
        if len(seen) == 19:
            others.set()

    await handled(source_of(jobs), handler, batch=4, concurrency=4)
    assert seen[-1] == 0


@pytest.mark.parametrize("id", ["uuid", "text"])
@pytest.mark.parametrize(("status", "updated_at"), [("enum", "naive"), ("varchar", "aware")])
async def test_columns_of_every_supported_type_work(jobs, id, status, updated_at):
    jobs.execute("DROP TABLE jobs")
    jobs.make_jobs(id, status, updated_at)
    key = "0" * 31 + "7"
    jobs.add(key, status="Pending", at=jobs.ago(10, naive=updated_at == "naive"))

    async def handler(record, session):
        raise ValueError("x")

    await handled(source_of(jobs), handler)
    assert [each.status for each in jobs.jobs().values()] == ["Failed"]


async def test_statuses_may_be_whole_numbers(jobs):
    jobs.execute("DROP TABLE jobs")
    jobs.make_jobs(status="integer")
    jobs.add(1, status=0)
    await handled(source_of(jobs, stuck=1, becomes=0, failed=3), nothing, done=2)
    assert jobs.statuses() == {2: 1}


@pytest.mark.parametrize(
    ("changes", "options", "field"),
    [
        ({"table": "nope"}, {}, "table"),
        ({"status_field": "nope"}, {}, "status_field"),
        ({"url": "postgresql+psycopg2://x/y"}, {}, "url"),
        ({}, {"done": 5}, "done"),
        ({}, {"done": "Processing"}, "done"),
        ({}, {"done": "Pending"}, "done"),
    ],
)
async def test_an_unsuitable_source_is_refused_at_the_start(jobs, changes, options, field):
    with pytest.raises(SourceRefused, match=f"source jobs, {field}: "):
        await handled(source_of(jobs, **changes), nothing, **options)


@pytest.mark.parametrize(
    "options", [{"batch": 0}, {"concurrency": 0}, {"poll_s": 0}, {"heartbeat": 0.0}, {"heartbeat": 3000}]
)
async def test_impossible_options_are_refused(jobs, options):
    with pytest.raises(ValueError):
        await process(source_of(jobs), nothing, **options)


@pytest.mark.parametrize("jobs", ["sqlite"], indirect=True)
async def test_an_unreadable_record_fails_and_delays_no_other(jobs):
    jobs.execute("ALTER TABLE jobs ADD COLUMN due DATE")
    jobs.add(1, status="Pending", due="someday")
    jobs.add(2, status="Pending", due="2026-01-31")
    await handled(source_of(jobs), nothing)
    found = jobs.jobs()
    assert (found["1"].status, found["2"].status) == ("Failed", "Done")
    assert "cannot be read" in found["1"].error


@pytest.mark.parametrize("jobs", ["postgresql"], indirect=True)
async def test_no_two_claims_have_the_same_time(jobs, caplog):
    """Or the outcome of one might be written over the other."""
    caplog.set_level("INFO", "hub.client")
    jobs.add(1, status="Pending")
    jobs.execute(
        "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN NEW.updated_at := OLD.updated_at; RETURN NEW; END'; "
        "CREATE TRIGGER keep BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION keep();"
    )
    stop = asyncio.Event()
    running = asyncio.create_task(process(source_of(jobs), noting, done="Done", stop=stop, poll_s=0.01))
    await eventually(lambda: "not claimed" in caplog.text)
    await asyncio.sleep(0.2)
    stop.set()
    assert (await running).claimed == 0
    assert jobs.statuses() == {"Pending": 1}
    assert [line.levelname for line in caplog.records if "not claimed" in line.getMessage()] == ["WARNING"]


def test_without_sqlalchemy_the_loop_names_the_package_to_install():
    code = "import sys; sys.modules['sqlalchemy'] = None; import hub.client, hub.client.jobs; import hub.recovery.loop"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].endswith("run: pip install 'capacity-hub[sql]'")

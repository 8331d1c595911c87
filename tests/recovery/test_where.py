"""A filter by equality: a threshold for each kind of record, in one table or one index."""

import asyncio

import pytest

from hub.errors import SourceRefused
from hub.recovery.file import read_sources
from hub.recovery.models import Reset
from tests.recovery.hashes import put, records_of
from tests.recovery.loop.world import handled


def orders(database):
    """Some of each kind, an hour and a half and five hours old."""
    database.make_jobs()
    database.execute(
        "ALTER TABLE jobs ADD kind text; ALTER TABLE jobs ADD size integer; ALTER TABLE jobs ADD vip boolean;"
    )
    for number, (kind, age_s) in enumerate([("quick", 5400), ("slow", 5400), ("slow", 18_000), (None, 18_000)], 1):
        database.add(number, age_s=age_s, **({"kind": kind} if kind else {}))


async def test_each_kind_of_record_may_have_its_own_threshold(database, opened):
    orders(database)
    quick = opened(database.source(name="quick", where={"kind": "quick"}, threshold_minutes=60))
    slow = opened(database.source(name="slow", where={"kind": "slow"}, threshold_minutes=240))
    for records, id in ((quick, "1"), (slow, "3")):
        await records.check()
        assert (await records.count(), [each.id for each in await records.look(9)]) == (1, [id])
    assert await quick.reset(["1", "2", "3", "4"]) == Reset(("1",))
    assert await slow.reset() == Reset(("3",))
    assert database.statuses() == {"Pending": 2, "Processing": 2}


@pytest.mark.parametrize("where", [{"size": 3}, {"vip": True}, {"size": 3, "kind": "slow", "vip": True}])
async def test_a_filter_may_have_several_fields_with_numbers_and_truth_values(database, opened, where):
    orders(database)
    database.execute("UPDATE jobs SET size = 3, vip = true WHERE id IN (2, 3)")
    records = opened(database.source(where=where))
    await records.check()
    assert set((await records.reset()).reset) == {"2", "3"}


async def test_the_loop_claims_only_records_that_match_its_filter(database):
    orders(database)
    database.execute("UPDATE jobs SET status = 'Pending'")
    seen = []

    async def handler(record, session):
        seen.append(record.id)
        await asyncio.sleep(0)
        return {"kind": "handled"}  # which is no business of the filter any more

    await handled(database.source(where={"kind": "slow"}, error_field="error"), handler)
    assert (sorted(seen), database.statuses()) == ([2, 3], {"Done": 2, "Pending": 2})


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ({"nope": 1}, "where: jobs has no column 'nope'"),
        ({"size": "3"}, "where: the column 'size' is INTEGER, not one that '3' may be in."),
        ({"kind": 3}, "where: the column 'kind' is TEXT, not one that 3 may be in."),
        ({"size": 2**31}, "where: 2147483648 does not fit into 'size', which is INTEGER."),
    ],
)
async def test_a_filter_that_does_not_fit_the_table_is_refused(pg, opened, where, said):
    orders(pg)
    with pytest.raises(SourceRefused) as refused:
        await opened(pg.source(where=where)).check()
    assert str(refused.value).startswith(f"source jobs, {said}")


def test_a_filter_is_declared_as_an_inline_table(tmp_path):
    path = tmp_path / "recovery.toml"
    text = '[[sources]]\nname = "quick"\nurl = "sqlite+aiosqlite:///x"\ntable = "t"\n'
    path.write_text(text + 'where = {kind = "quick", vip = true}\n')
    (source,) = read_sources(path)
    assert source.where == {"kind": "quick", "vip": True}
    for wrong, said in (
        ("{kind = 1.5}", "it must be a table of fields, and the text, whole number or truth each has, and is 1.5"),
        ('"kind"', "it must be a table of fields, and the text, whole number or truth each has, and is 'kind'"),
        ('{status = "x"}', "'status' is the status_field, which changes"),
    ):
        path.write_text(f"{text}where = {wrong}\n")
        with pytest.raises(SourceRefused) as refused:
            read_sources(path)
        assert str(refused.value) == f"{path}, source quick, where: {said}."


async def test_hashes_can_be_filtered_too(hub, redis):
    put(redis, "a", kind="quick", size="3")
    put(redis, "b", kind="slow", size="3", updated_at="2026-01-01 00:00:00")
    put(redis, "c", size="3")
    records = records_of(hub, where={"kind": "quick", "size": 3})
    await records.check()  # what is wrong with a record of another source is that one's affair
    assert await records.count() == 1
    assert await records.reset(["a", "b", "c"]) == Reset(("a",))

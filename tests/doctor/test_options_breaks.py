"""What stands beside tasks that were submitted with more than a payload, broken by hand."""

from __future__ import annotations

import pytest

from hub.jobs.models import Options
from tests.doctor.shop import JOB, USER, furnish, look

NOBODY = "f" * 32


@pytest.fixture
async def shop(hub, redis):
    return await furnish(hub, redis)


async def found_and_mended(hub):
    found = await look(hub)
    assert [each.subject for each in await look(hub, repair=True)] == [each.subject for each in found]
    assert await look(hub) == []
    return [(each.invariant, each.subject, each.problem) for each in found]


@pytest.mark.parametrize("of", [NOBODY, "waiting"])
async def test_a_unique_key_of_a_task_that_does_not_stand_for_it_goes(shop, hub, of):
    shop.redis.set(f"hub:unique:{NOBODY}", shop.ids.get(of, of))
    assert await found_and_mended(hub) == [("C12", f"hub:unique:{NOBODY}", "names what does not belong there")]
    assert shop.redis.keys("hub:unique:*") == []


async def test_a_unique_key_of_its_task_stays_also_when_that_is_forgotten(shop, hub):
    [task] = await hub.tasks.submit("one", JOB, ["{}"], USER, Options(unique_key="k", unique_ms=3_600_000))
    assert await look(hub) == []
    [key] = shop.redis.keys("hub:unique:*")
    assert shop.redis.get(key) == task.id
    shop.redis.set(key, NOBODY, ex=3600)  # as it is when its task was completed, and is not kept for as long
    assert await look(hub) == []

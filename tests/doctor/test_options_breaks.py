"""Records beside tasks that were submitted with more than a payload, broken by hand."""

from __future__ import annotations

import pytest

from hub.jobs.models import Options
from hub.jobs.rules import Rule
from hub.jobs.schedules import Schedule
from tests.doctor.shop import JOB, USER, look

NOBODY = "f" * 32


async def found_and_mended(hub):
    found = await look(hub)
    assert [each.subject for each in await look(hub, repair=True)] == [each.subject for each in found]
    assert await look(hub) == []
    return [(each.invariant, each.subject, each.problem) for each in found]


@pytest.mark.parametrize("of", [NOBODY, "waiting"])
async def test_a_unique_key_that_names_the_wrong_task_is_deleted(shop, hub, of):
    shop.redis.set(f"hub:unique:{NOBODY}", shop.ids.get(of, of))
    assert await found_and_mended(hub) == [("C12", f"hub:unique:{NOBODY}", "names what does not belong there")]
    assert shop.redis.keys("hub:unique:*") == []


async def test_the_doctor_leaves_alone_a_unique_key_of_its_own_task_or_one_that_expires(shop, hub):
    [task] = await hub.tasks.submit("one", JOB, ["{}"], USER, Options(unique_key="k", unique_ms=3_600_000))
    assert await look(hub) == []
    [key] = shop.redis.keys("hub:unique:*")
    assert shop.redis.get(key) == task.id
    shop.redis.set(key, NOBODY, ex=3600)  # as it is when its task was completed, and is not kept for as long
    assert await look(hub) == []


async def chained(hub, shop):
    [task] = await hub.tasks.submit("one", JOB, ["{}"], USER, Options(after=(shop.running, shop.waiting)))
    assert await look(hub) == []
    return task


async def test_a_dependent_task_missing_from_its_index_is_looked_at_again(shop, hub):
    task = await chained(hub, shop)
    shop.redis.zrem("hub:blocked", task.id)
    [(rule, _, said)] = await found_and_mended(hub)
    assert (rule, said[:20]) == ("C9", "pending, but in no q")
    assert shop.redis.zscore("hub:blocked", task.id) > 0


async def test_a_dependent_task_that_its_parents_do_not_know_is_told_of_their_end(shop, hub):
    task = await chained(hub, shop)
    shop.redis.delete(f"hub:task_children:{shop.running}", f"hub:task_children:{shop.waiting}")
    [(rule, _, said)] = await found_and_mended(hub)
    assert (rule, said) == ("C9", "waits for others that are all over, or do not know of it")
    await hub.tasks.move(shop.waiting, "cancelled", superuser=True)
    assert (await hub.tasks.get(task.id)).status == "failed"


async def test_dependency_records_of_a_task_without_dependencies_are_deleted(shop, hub):
    shop.redis.zadd("hub:blocked", {shop.waiting: 5})
    shop.redis.sadd(f"hub:task_parents:{shop.waiting}", shop.running)
    shop.redis.sadd(f"hub:task_children:{shop.over}", shop.waiting)
    shop.redis.zadd("hub:settling", {f"{shop.dead}:failed": 5})
    assert [found[0] for found in await found_and_mended(hub)].count("C12") == 3
    assert shop.redis.keys("hub:blocked") + shop.redis.keys("hub:task_*s:*") + shop.redis.keys("hub:settling") == []


async def scheduled(hub):
    wanted = Schedule(room="one", name="s", job=JOB, payload="{}", rule=Rule(every_ms=60_000))
    found, _ = await hub.schedules.put(wanted, USER, False)
    assert await look(hub) == []
    return found


async def test_a_schedule_missing_from_its_index_is_due_again(shop, hub):
    schedule = await scheduled(hub)
    shop.redis.delete("hub:schedules", "hub:room_schedules:one")
    said = [problem for _, _, problem in await found_and_mended(hub)]
    assert {text.partition(",")[0] for text in said} == {
        "not among the schedules",
        "not among the schedules of its room",
    }
    assert shop.redis.zscore("hub:schedules", schedule.id) == schedule.due_us
    await hub.schedules.pause("one", "s", USER, False, paused=True)
    assert await look(hub) == []


async def test_index_entries_of_deleted_schedules_are_removed(shop, hub):
    shop.redis.zadd("hub:schedules", {"one:gone": 5})
    shop.redis.zadd("hub:room_schedules:one", {"gone": 5})
    assert len(await found_and_mended(hub)) == 2
    await scheduled(hub)
    shop.redis.hdel("hub:schedule:one:s", "job")
    await found_and_mended(hub)
    assert shop.redis.keys("hub:*schedule*") == []

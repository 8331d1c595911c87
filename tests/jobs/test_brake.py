"""The brake on workers asks whether other workers are heard: if they are, the hub is not deaf."""

from __future__ import annotations

from hub.core import Hub
from hub.store.connection import open_store
from tests.jobs.conftest import USER, sweep, worker_of
from tests.world import settings_for

TIMEOUT_S, INTERVAL_S = 60, 30


async def crew(hub, count):
    """Make so many workers that have just beaten."""
    made = []
    for _ in range(count):
        made.append(await worker_of(hub))
        await hub.workers.beat(made[-1], USER)
    return made


def passes(redis, seconds, *heard):
    """So much time passes on the hub clock, in which only these beat, the last of them just now."""
    for worker in redis.zrange("hub:worker_beats", 0, -1):
        if worker not in heard:
            redis.zincrby("hub:worker_beats", -seconds * 1000, worker)
    for field in ("since_ms", "window"):
        if redis.hexists("hub:worker_brake", field):
            redis.hincrby("hub:worker_brake", field, -seconds * 1000)
    if redis.hexists("hub:store", "reopened_ms"):
        redis.hincrby("hub:store", "reopened_ms", -seconds * 1000)


async def test_half_of_ten_silent_workers_are_removed_after_a_timeout_and_an_interval(hub, redis):
    alive, dead = (await crew(hub, 5)), (await crew(hub, 5))
    for number, worker in enumerate(dead):  # they beat at different times, as workers do
        redis.zincrby("hub:worker_beats", -6000 * number, worker)
    passed_s = 0
    while (await hub.workers.page(10, 0)).total > 5:
        assert passed_s < TIMEOUT_S + INTERVAL_S, "a minute and a half after their last beat they are still there"
        passes(redis, INTERVAL_S, *alive)
        passed_s += INTERVAL_S
        await sweep(hub)
    assert {worker.id for worker in (await hub.workers.page(10, 0)).items} == set(alive)


async def test_nine_of_ten_silent_workers_are_removed_after_a_timeout_and_an_interval(hub, redis):
    [alive], dead = (await crew(hub, 1)), (await crew(hub, 9))
    for number, worker in enumerate(dead):
        redis.zincrby("hub:worker_beats", -3000 * number, worker)
    passed_s = 0
    while (await hub.workers.page(10, 0)).total > 1:
        assert passed_s < TIMEOUT_S + INTERVAL_S
        passes(redis, INTERVAL_S, alive)
        passed_s += INTERVAL_S
        await sweep(hub)


async def test_workers_that_beat_late_because_their_hub_was_deaf_get_time_to_be_heard(hub, redis):
    workers = await crew(hub, 10)
    passes(redis, 62)
    assert (await sweep(hub)).brake == "engaged", "nobody was heard at all"
    passes(redis, 5, workers[0])
    await hub.workers.beat(workers[0], USER)  # it hears again, and the first beats come
    done = await sweep(hub)
    assert (done.expired, done.brake, done.held) == (0, "engaged", 9)
    for worker in workers[1:]:
        await hub.workers.beat(worker, USER)
    assert (await sweep(hub)).brake == "off"
    assert (await hub.workers.page(10, 0)).total == 10


async def test_after_a_failover_half_of_the_workers_are_not_removed_in_one_pass(hub, redis):
    alive, late = (await crew(hub, 5)), (await crew(hub, 5))
    passes(redis, 62, *alive)
    clock_ms = int(redis.hget("hub:store", "clock_ms"))
    redis.hset("hub:store", "reopened_ms", clock_ms - 30_000)  # they were about to beat when the store went away
    done = await sweep(hub)
    assert (done.expired, done.brake, done.held) == (0, "engaged", 5)
    for worker in late:
        await hub.workers.beat(worker, USER)
    await sweep(hub)
    assert (await hub.workers.page(10, 0)).total == 10


async def test_the_brake_works_after_a_restart_as_before(own_redis):
    settings = settings_for(own_redis.url)
    async with open_store(settings) as store:
        hub, redis = Hub(store, settings), own_redis.client()
        await crew(hub, 10)
        await hub.clock.tick()
        own_redis.kill()
        own_redis.start()
        await hub.clock.tick()
        await hub.clock.tick()
        for worker in redis.zrange("hub:worker_beats", 0, 4):
            redis.zincrby("hub:worker_beats", -62_000, worker)
        done = await sweep(hub)
        assert (done.expired, done.brake, done.held) == (0, "engaged", 5)


async def test_the_brake_works_at_once_after_a_flush(hub, redis):
    await crew(hub, 10)
    await hub.clock.tick()
    redis.flushall()
    await hub.clock.tick()
    await hub.clock.tick()
    await crew(hub, 10)  # an unknown worker that beats registers again
    for worker in redis.zrange("hub:worker_beats", 0, 4):
        redis.zincrby("hub:worker_beats", -62_000, worker)
    done = await sweep(hub)
    assert (done.scanned, done.expired, done.brake, done.held) == (10, 0, "engaged", 5)

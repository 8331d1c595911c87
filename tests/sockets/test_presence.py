"""Workers and their connections: bound, hung up, back in time or not, over all hubs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack

import pytest
from redis import Redis

from hub.core import Hub
from hub.jobs.presence import WORKERS_MAX
from hub.store.connection import open_store
from hub.sweeping.tasks import TaskSweeperService
from tests.sockets.people import ANN, BOB, connections, lives, new_worker, traces
from tests.world import RedisServer, settings_for

GRACE_MS = 5000


@pytest.fixture(scope="module")
def _apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("apart")) as server:
        yield server


@pytest.fixture
def redis_server(_apart: RedisServer) -> RedisServer:
    """A server, emptied, for the hubs below alone: the hub that outlives the tests of this folder looks after workers
    as well, and takes others that do not tick for gone."""
    _apart.client().flushall()
    return _apart


@pytest.fixture
async def hubs(redis_server: RedisServer) -> AsyncIterator[list[Hub]]:
    """Two hubs on one store that have just ticked."""
    settings = settings_for(redis_server.url)
    async with AsyncExitStack() as stack:
        found = [Hub(await stack.enter_async_context(open_store(settings)), settings) for _ in range(2)]
        for each in found:
            await each.clock.tick()
        yield found


@pytest.fixture
async def worker(hub: Hub) -> str:
    """A worker of Ann's."""
    return (await hub.workers.create(ANN, new_worker())).id


async def connect(hub: Hub, worker: str, connection: str) -> None:
    """Open a connection that stands for the worker."""
    hub.presence.connected(connection)
    assert await hub.presence.bind(worker, ANN, connection)


def pass_ms(redis: Redis, ms: int) -> None:
    """Let so much time pass on the hub clock for workers that have hung up."""
    for worker, due in redis.zrange("hub:hung_up", 0, -1, withscores=True):
        redis.zadd("hub:hung_up", {worker: due - ms})


async def sweep(hub: Hub) -> None:
    await hub.clock.tick()
    await TaskSweeperService(hub.store, hub.settings, hub.workers).sweep()


async def test_a_disconnected_worker_is_removed_after_the_grace_and_not_before(hubs, worker, redis):
    hub = hubs[0]
    hub.presence.connected("c1")
    assert await hub.presence.bind(worker, ANN, "c1")
    await hub.presence.ended("c1")
    pass_ms(redis, GRACE_MS - 2000)
    await sweep(hub)
    assert lives(redis, worker)
    pass_ms(redis, 3001)  # the connection may have ended up to a second after the last tick
    await sweep(hub)
    assert (lives(redis, worker), traces(redis)) == (False, set())


async def test_a_worker_that_reconnects_within_the_grace_stays(hubs, worker, redis):
    first, second = hubs
    await connect(first, worker, "c1")
    await first.presence.ended("c1")
    await connect(second, worker, "c1")  # two hubs may call theirs the same
    pass_ms(redis, GRACE_MS)
    await sweep(first)
    assert (lives(redis, worker), redis.zcard("hub:hung_up")) == (True, 0)


async def test_a_worker_that_reconnects_at_the_moment_of_its_removal_stays(hubs, worker, redis):
    hub = hubs[0]
    await connect(hub, worker, "c1")
    await hub.presence.ended("c1")
    await connect(hub, worker, "c2")
    assert await hub.workers.expire(worker, "hung up", -1) == "alive"  # the sweeper had it on its list already
    assert lives(redis, worker)


async def test_a_worker_stays_when_one_of_its_two_connections_ends(hubs, worker, redis):
    first, second = hubs
    for hub, connection in ((first, "c1"), (second, "c2")):
        await connect(hub, worker, connection)
    await first.presence.ended("c1")
    assert (connections(redis, worker), redis.zcard("hub:hung_up")) == (1, 0)
    await second.presence.ended("c2")
    assert (connections(redis, worker), redis.zrange("hub:hung_up", 0, -1)) == (0, [worker])


async def test_all_workers_of_an_ended_connection_count_as_disconnected(hubs, redis):
    hub = hubs[0]
    workers = [(await hub.workers.create(ANN, new_worker())).id for _ in range(3)]
    hub.presence.connected("c1")
    for worker in workers:
        await hub.presence.bind(worker, ANN, "c1")
    await hub.presence.ended("c1")
    assert set(redis.zrange("hub:hung_up", 0, -1)) == set(workers)


async def test_the_worker_of_another_user_cannot_be_made_to_count_as_disconnected(hubs, worker, redis):
    hub = hubs[0]
    hub.presence.connected("c1")
    assert not await hub.presence.bind(worker, BOB, "c1")
    assert not await hub.presence.bind(new_worker(), BOB, "c1")
    await hub.presence.ended("c1")
    assert traces(redis) == set()


async def test_a_worker_deleted_before_its_connection_ended_leaves_no_keys(hubs, worker, redis):
    hub = hubs[0]
    await connect(hub, worker, "c1")
    await hub.workers.delete(worker, ANN, superuser=False)
    await hub.presence.ended("c1")
    assert traces(redis) == set()


async def test_ending_a_connection_twice_or_without_a_worker_changes_nothing(hubs, worker, redis):
    hub = hubs[0]
    for connection in ("c1", "c2"):
        hub.presence.connected(connection)
    await hub.presence.bind(worker, ANN, "c1")
    await hub.presence.ended("c1")
    due = redis.zscore("hub:hung_up", worker)
    await hub.clock.tick()
    await hub.presence.ended("c1")
    await hub.presence.ended("c2")
    assert redis.zscore("hub:hung_up", worker) == due


async def test_a_worker_bound_to_an_ended_connection_counts_as_disconnected(hubs, worker, redis):
    hub = hubs[0]
    await hub.presence.bind(worker, ANN, "c1")
    assert traces(redis) == {"hub:hung_up"}


async def test_removed_workers_make_room_on_a_connection_at_its_limit(hubs, worker, redis):
    hub = hubs[0]
    hub.presence.connected("c1")
    others = [new_worker() for _ in range(WORKERS_MAX)]
    for other in others:
        redis.hset(f"hub:worker:{other}", "user", ANN)
        assert await hub.presence.bind(other, ANN, "c1")
    assert not await hub.presence.bind(worker, ANN, "c1")
    redis.delete(f"hub:worker:{others[0]}")
    assert await hub.presence.bind(worker, ANN, "c1")
    assert not await hub.presence.bind(others[0], ANN, "c1")


async def test_a_stopping_hub_does_not_count_its_workers_as_disconnected(hubs, worker, redis):
    hub = hubs[0]
    await connect(hub, worker, "c1")
    hub.presence.stop()
    await hub.presence.ended("c1")
    assert traces(redis) == set()


async def test_connections_of_a_dead_hub_are_forgotten_without_counting_its_workers_as_hung_up(hubs, worker, redis):
    dead, other = hubs
    for number in range(60):  # more than one batch
        dead.presence.connected(f"c{number}")
        await dead.presence.bind(worker, ANN, f"c{number}")
    other.presence.connected("mine")
    await other.presence.bind(mine := (await other.workers.create(ANN, new_worker())).id, ANN, "mine")
    await other.presence.look_after()
    assert connections(redis, worker) == 60  # it may only be slow
    redis.zrem("hub:hubs", dead.clock.hub_id)
    await other.presence.look_after()
    assert (connections(redis, worker), connections(redis, mine), redis.zcard("hub:hung_up")) == (0, 1, 0)
    assert redis.smembers("hub:socket_hubs") == {other.clock.hub_id}
    assert lives(redis, worker)


async def test_a_hub_that_was_taken_for_dead_by_mistake_reports_its_connections_again(hubs, worker, redis):
    slow, other = hubs
    await connect(slow, worker, "c1")
    redis.zrem("hub:hubs", slow.clock.hub_id)
    await other.presence.look_after()
    assert connections(redis, worker) == 0
    await slow.clock.tick()
    await slow.presence.look_after()
    assert connections(redis, worker) == 1


async def test_connections_that_the_store_lost_are_reported_again(hubs, worker, redis):
    hub = hubs[0]
    await connect(hub, worker, "c1")
    redis.delete(*traces(redis))
    await hub.presence.look_after()
    assert connections(redis, worker) == 1


async def test_an_emptied_store_gets_no_report_of_unknown_workers(hubs, worker, redis):
    hub = hubs[0]
    await connect(hub, worker, "c1")
    redis.flushall()
    await hub.clock.tick()
    await hub.presence.look_after()
    await hub.presence.ended("c1")
    assert traces(redis) == set()


async def test_a_connection_that_ends_while_redis_is_away_is_noted_when_it_is_back(hubs, worker, redis):
    hub = hubs[0]
    await connect(hub, worker, "c1")
    hub.store.set_away()
    await hub.presence.ended("c1")
    assert redis.zcard("hub:hung_up") == 0
    await hub.clock.tick()
    assert redis.zrange("hub:hung_up", 0, -1) == [worker]

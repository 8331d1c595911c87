"""A hub on a Redis Cluster: failovers of its shard and moves of its slot under load, as with Sentinels.

`HUB_FAILOVERS` makes it longer.
"""

from __future__ import annotations

import asyncio
import re
import signal
import time

import pytest

from tests.cli.command import Command
from tests.cluster import TIMEOUT_MS, RedisCluster
from tests.races.test_failover import FAILOVERS, FAULTS, Load
from tests.world import SLACK_S, eventually

pytestmark = pytest.mark.race
TAG = "{hub}:"
FILLERS = 100_000  # keys that move with those of the hub
BACK_S = TIMEOUT_MS / 1000 + 3  # from the fault to the next lease
TIMEOUT_S = 3  # of nodes, where a slot moves
MOVED_S = 1.0  # from the end of a move to the next lease


@pytest.fixture
def cluster(tmp_path):
    servers = RedisCluster(tmp_path)
    yield servers
    servers.stop()


@pytest.fixture
def two_hubs(start_hub):
    def start(cluster, **changes):
        settings = {"HUB_REDIS_URL": cluster.url, "HUB_NODE_TIMEOUT": "12", "REDIS_ASYNC_TIMEOUT_MS": "3000"}
        return [start_hub(**settings | changes) for _ in range(2)]

    return start


async def agreed(change, *arguments):
    """Do what makes the servers agree on another owner; when they did."""
    await asyncio.to_thread(change, *arguments)
    return time.monotonic()


async def is_back(load, since, within_s, what):
    """Wait for leases, the first of which is made in time. Prints how long it took."""
    back_s = await load.goes_on() - since
    print(f"writing again {back_s:.2f} s after {what}")
    assert back_s < within_s + SLACK_S


@pytest.mark.timeout(120 + 60 * FAILOVERS)
async def test_planned_failovers_of_the_shard_lend_nothing_twice(cluster, two_hubs):
    async with Load(two_hubs(cluster)) as load:
        await load.goes_on()
        for _ in range(FAILOVERS):
            at = await agreed(cluster.fail_over, TAG)
            await is_back(load, at, BACK_S, "the servers agreed")
            await eventually(lambda: asyncio.to_thread(cluster.is_whole), 60)
        assert load.verdict() == ([], [])


@pytest.mark.timeout(120 + 60 * FAILOVERS)
@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL], ids=["stopped", "killed"])
async def test_a_primary_of_the_shard_that_is_stopped_or_killed_lends_nothing_twice(cluster, two_hubs, number):
    async with Load(two_hubs(cluster)) as load:
        for _ in range(FAULTS):
            await load.goes_on()
            before = cluster.owner(TAG)
            at = time.monotonic()
            before.signal(number)
            await asyncio.to_thread(cluster.wait_for_another, TAG, before)
            await is_back(load, at, BACK_S, "the fault")
            if number == signal.SIGSTOP:
                before.signal(signal.SIGCONT)  # and it still takes itself for the owner
            else:
                before.kill()
                await asyncio.to_thread(before.start)
            await load.goes_on(60)
            await eventually(lambda: asyncio.to_thread(cluster.is_whole), 60)
        await load.goes_on()
        assert load.verdict() == ([], [])


@pytest.mark.timeout(300)
async def test_a_slot_migration_that_stops_half_way_leaves_no_command_half_done(cluster, two_hubs, tmp_path):
    """The store is away while the slot moves: no node expires, no lease lapses, no command is carried out in part."""
    hubs = two_hubs(cluster, HUB_NODE_TIMEOUT=str(TIMEOUT_S))
    async with Load(hubs) as load:
        await load.goes_on()
        with cluster.owner(TAG).client() as redis:
            fill(redis)
        move = cluster.begin_move(TAG)
        for hub in hubs:
            await eventually(lambda hub=hub: is_refused(hub))
        assert await asyncio.to_thread(move.carry, FILLERS // 2) > 0
        frozen_at = time.monotonic()

        async def is_frozen_for_long():
            assert all([await is_refused(hub) for hub in hubs])
            return time.monotonic() - frozen_at > 2 * TIMEOUT_S

        await eventually(is_frozen_for_long)
        assert await asyncio.to_thread(move.carry) > 0
        at = await agreed(move.end)
        await is_back(load, at, MOVED_S, "the slot has moved")
        assert cluster.owner(TAG) is move.target
        assert load.verdict() == ([], [])
    logs = "".join(hub.log_path.read_text() for hub in hubs)
    assert not re.findall(r"node sweep .*expired=[1-9].*", logs)
    done = Command(hubs[0], tmp_path)("doctor", HUB_REDIS_URL=cluster.url)
    assert done.stdout.startswith("Every invariant holds"), done.stdout


def fill(redis):
    """Add keys that move along with the keys of the hub, of a kind that the doctor does not delete."""
    pipe = redis.pipeline(transaction=False)
    for number in range(FILLERS):
        pipe.set(f"{TAG}filler:{number}", "x")
    pipe.execute()


async def is_refused(hub):
    """Return whether a borrow is answered that there is no store."""
    async with hub.client("runner") as api:
        answer = await api.post("/session/borrow", json={"labelKey": "nobody:has:it", "maxWaitSeconds": 0})
        return answer.json()["code"] in ("store-unavailable", "late")

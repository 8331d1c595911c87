"""After a failover to a server whose clock is an hour behind, newcomers queue behind earlier waiters."""

from __future__ import annotations

import asyncio
import signal

import pytest

from tests.api.streams import listening
from tests.races.test_failover_waiters import done, serving
from tests.replicas import Trio
from tests.world import PATIENCE_S, borrow, eventually, give_back, publish

pytestmark = pytest.mark.race
LABEL = "gpu:a100"
HOUR_S = 3600


@pytest.fixture
def trio(tmp_path):
    """The second server is an hour behind, and the only one that can take over."""
    servers = Trio(tmp_path, off_s=(0, -HOUR_S, 0))
    servers.never_promote(servers.servers[2])
    times = []
    for server in servers.servers[:2]:
        with server.client() as client:
            times.append(client.time()[0])
    assert times[0] - times[1] > HOUR_S / 2
    yield servers
    servers.stop()


class Line:
    """The waiters for the only slot, and the order in which they were served."""

    def __init__(self, api):
        self._api = api
        self._tasks = []
        self.served = []

    async def come(self, name):
        """Borrow from the queue and return the slot as soon as it is granted."""
        before = await self.waiting()
        self._tasks.append(asyncio.create_task(self._borrow(name)))
        await self.until_waiting(before + 1)

    async def _borrow(self, name):
        answer = await borrow(self._api, LABEL, run=name, maxWaitSeconds=600)
        lease = answer.json()
        self.served.append(name if answer.status_code == 200 else f"{name}: {answer.text}")
        await done(lambda: give_back(self._api, LABEL, lease["browserId"], leaseToken=lease["leaseToken"]))

    async def waiting(self):
        answer = await done(lambda: self._api.get("/queue"))
        return answer.json()["waiting"]

    async def until_waiting(self, count):
        async def there():
            return await self.waiting() == count

        await eventually(there)

    async def end(self):
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*self._tasks)


def keep_and_fail_over(trio, primary):
    """Fail over to a server that has every write."""
    with primary.client() as client:
        client.set("a mark", "1")
        assert client.wait(2, 60_000) == 2
    trio.fail_over()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("lost", [False, True], ids=["kept", "lost"])
async def test_a_newcomer_queues_behind_earlier_waiters_after_a_failover_to_a_server_with_a_late_clock(trio, lost):
    """`lost`: the new primary never received the last waiter, nor the time at which it came."""
    async with serving(trio.url) as (app, api, hub), listening(app, kind="grant") as stream:
        await publish(api, "n1", **{LABEL: ["s1"]})
        held = (await borrow(api, LABEL)).json()
        line, primary, before = Line(api), trio.primary, hub.store.generation
        await line.come("first")
        if not lost:
            await line.come("second")
            await asyncio.to_thread(keep_and_fail_over, trio, primary)
        else:
            with primary.client() as client:
                client.set("a mark", "1")
                assert client.wait(2, 60_000) == 2
            others = await asyncio.to_thread(trio.part, primary)
            await line.come("second")
            primary.signal(signal.SIGSTOP)
            for each in others:
                each.signal(signal.SIGCONT)
            await asyncio.to_thread(trio.wait_for_another, primary)
        await eventually(lambda: hub.store.generation != before and not hub.store.away)
        assert trio.primary is trio.servers[1]
        await line.until_waiting(2)
        await line.come("third")
        await publish(api, "n1", **{LABEL: ["s1"]})  # it says what it has, and is lent from again
        await done(lambda: give_back(api, LABEL, "s1", leaseToken=held["leaseToken"]))
        await line.end()
        assert line.served == ["first", "second", "third"]
        # The events of the new primary are heard although their ids are of an hour ago.
        await eventually(lambda: stream.names.count("grant.handed") >= 3)
        assert stream.names.count("grant.handed") == 3
        primary.signal(signal.SIGCONT)

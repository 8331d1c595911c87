"""Failovers under load: no slot is held twice, no token comes twice, and lending goes on.

`HUB_FAILOVERS` makes it longer; `make proof` has twenty of the planned ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import time
from collections.abc import Callable

import httpx
import pytest

from hub.client import NodeAgent
from tests.races.ledger import broken, holds
from tests.races.people import AnyHub
from tests.replicas import Trio
from tests.world import SLACK_S, HubProcess, eventually

pytestmark = pytest.mark.race
LABEL = "gpu:a100"
SLOTS = 12
BORROWERS = 10
FAILOVERS = int(os.environ.get("HUB_FAILOVERS", "2"))
FAULTS = max(1, FAILOVERS // 5)
BACK_S = 2.0  # from the moment when the primary takes writes to the next lease


class Load:
    """A node and borrowers that note what they hold, at two hubs."""

    def __init__(self, hubs: list[HubProcess]) -> None:
        self._hubs = hubs
        self._ports = [hub.port for hub in hubs]
        self.lines: list[dict] = []
        self.leases: list[tuple[float, int]] = []
        self._running: list[asyncio.Task] = []

    async def __aenter__(self):
        self._agent = NodeAgent(
            "n1", pools={LABEL: SLOTS}, url="http://127.0.0.1:1", secret=self._hubs[0].node_secret, policy="reuse",
            transport=AnyHub(self._ports),
        )  # fmt: skip
        await self._agent.__aenter__()
        self._running = [asyncio.create_task(self._borrow(f"b{n}")) for n in range(BORROWERS)]
        return self

    async def __aexit__(self, *_):
        for task in self._running:
            task.cancel()
        ended = await asyncio.gather(*self._running, return_exceptions=True)
        assert [each for each in ended if not isinstance(each, asyncio.CancelledError)] == []
        with contextlib.suppress(Exception):
            await self._agent.__aexit__(None, None, None)

    async def _borrow(self, name):
        secret = {"x-hub-secret": self._hubs[0].runner_secret}
        transport = AnyHub(list(self._ports))
        async with httpx.AsyncClient(
            base_url="http://127.0.0.1:1", headers=secret, transport=transport, timeout=5
        ) as api:
            while True:
                await asyncio.sleep(random.uniform(0, 0.05))
                with contextlib.suppress(httpx.HTTPError):
                    await self._once(api, name)

    async def _once(self, api, name):
        asked = {"labelKey": LABEL, "ttlSeconds": 60, "maxWaitSeconds": 0}
        answer = await api.post("/session/borrow", json=asked)
        if answer.status_code != 200:
            assert answer.status_code == 503, answer.text
            return
        lease = answer.json()
        slot, token = lease["browserId"], lease["leaseToken"]
        now = time.time()
        self.leases.append((time.monotonic(), int(token)))
        hold = {"who": name, "slot": slot, "token": token, "node": "n1"}
        self.lines.append({"at": now, "event": "holds", "until": now + 60, **hold})
        await asyncio.sleep(random.uniform(0.05, 0.3))
        self.lines.append({"at": time.time(), "event": "gives", **hold})
        body = {"labelKey": LABEL, "browserId": slot, "leaseToken": token}

        async def returned():
            with contextlib.suppress(httpx.HTTPError):
                return (await api.post("/session/return", json=body)).status_code == 200
            return False

        await eventually(returned)

    async def goes_on(self, leases: int = 20) -> float:
        """Wait for so many more leases; when the first of them was made."""
        before = len(self.leases)
        await eventually(lambda: len(self.leases) >= before + leases, 60)
        return self.leases[before][0]

    async def is_back(self, trio: Trio) -> None:
        """Wait for leases: the first is made in time after the Sentinels agree on a primary that takes writes. Prints
        how long it took.

        A Sentinel may promote a second server before the first has its replica back; until then no write succeeds.
        """
        before, since = len(self.leases), time.monotonic()
        async with asyncio.timeout(90):
            while len(self.leases) == before:
                if not await asyncio.to_thread(trio.takes_writes):
                    since = time.monotonic()
                await asyncio.sleep(0.02)
        back_s = self.leases[before][0] - since
        print(f"writing again {max(0, back_s):.2f} s after the primary took writes")
        assert back_s < BACK_S + SLACK_S
        await self.goes_on()

    def verdict(self):
        """Return the faults: (holds that overlap or whose tokens fall, tokens that were given twice)."""
        tokens = [token for _, token in self.leases]
        return broken(holds(self.lines), self.lines), [token for token in set(tokens) if tokens.count(token) > 1]


@pytest.fixture(params=[(), ("min-replicas-to-write 1", "min-replicas-max-lag 3")], ids=["plain", "min-replicas"])
def lines(request):
    """The additional lines of the configuration of the servers."""
    return request.param


@pytest.fixture
def trio(lines, tmp_path):
    servers = Trio(tmp_path, *lines)
    yield servers
    servers.stop()


@pytest.fixture
def wired(lines, tmp_path):
    """Yield servers that can each be cut off from all others and from the hubs."""
    servers = Trio(tmp_path, *lines, wired=True)
    yield servers
    servers.stop()


@pytest.fixture
def lagging(lines, tmp_path):
    """Two servers that take turns as the primary."""
    servers = Trio(tmp_path, *lines)
    servers.never_promote(servers.servers[2])
    yield servers
    servers.stop()


@pytest.fixture
def two_hubs(start_hub: Callable[..., HubProcess]):
    def start(trio: Trio) -> list[HubProcess]:
        settings = {"HUB_REDIS_URL": trio.url, "HUB_NODE_TIMEOUT": "12", "REDIS_ASYNC_TIMEOUT_MS": "3000"}
        return [start_hub(**settings) for _ in range(2)]

    return start


@pytest.mark.timeout(120 + 60 * FAILOVERS)
async def test_planned_failovers_lend_nothing_twice(trio, two_hubs):
    async with Load(two_hubs(trio)) as load:
        await load.goes_on()
        for _ in range(FAILOVERS):
            await asyncio.to_thread(trio.fail_over)
            await load.is_back(trio)
            await asyncio.to_thread(trio.wait_until_whole)
        assert load.verdict() == ([], [])


@pytest.mark.timeout(120 + 60 * FAILOVERS)
@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL], ids=["stopped", "killed"])
async def test_a_primary_that_is_stopped_or_killed_under_load_lends_nothing_twice(trio, two_hubs, number):
    async with Load(two_hubs(trio)) as load:
        for _ in range(FAULTS):
            await load.goes_on()
            before = trio.primary
            before.signal(number)
            await asyncio.to_thread(trio.wait_for_another, before)
            await load.is_back(trio)
            if number == signal.SIGSTOP:
                before.signal(signal.SIGCONT)  # and it still takes itself for the primary
            else:
                before.kill()
                await asyncio.to_thread(before.start)
            await load.goes_on(60)
            await asyncio.to_thread(trio.wait_until_whole)
        await load.goes_on()
        assert load.verdict() == ([], [])


@pytest.mark.timeout(120 + 60 * FAILOVERS)
async def test_a_primary_cut_off_from_sentinels_and_hubs_lends_nothing_twice(wired, two_hubs):
    """Once it can be reached again, it gets the delayed commands while it still takes itself for the primary."""
    async with Load(two_hubs(wired)) as load:
        for _ in range(FAULTS):
            await load.goes_on()
            before = wired.primary
            wired.wires.cut.add(before.port)
            await asyncio.to_thread(wired.wait_for_another, before)
            await load.is_back(wired)
            wired.wires.cut.clear()
            await load.goes_on(60)
            await asyncio.to_thread(wired.wait_until_whole)
        await load.goes_on()
        assert load.verdict() == ([], [])


@pytest.mark.timeout(180 + 60 * FAILOVERS)
async def test_a_failover_and_the_way_back_that_both_lose_what_was_written_last_lend_nothing_twice(
    lines, lagging, two_hubs
):
    """No server restarts: each is primary, then replica, then primary again.

    A primary that needs a replica refuses writes without one, and loses those that are on their way to it.
    """
    async with Load(two_hubs(lagging)) as load:
        await load.goes_on()
        first = lagging.primary
        for _ in range(2 * FAULTS):
            before = lagging.primary
            others = [] if lines else await asyncio.to_thread(lagging.part, before)
            await load.goes_on()  # leases that are lost
            before.signal(signal.SIGSTOP)
            for each in others:
                each.signal(signal.SIGCONT)
            await asyncio.to_thread(lagging.wait_for_another, before)
            await load.is_back(lagging)
            before.signal(signal.SIGCONT)
            await load.goes_on(60)
            await asyncio.to_thread(lagging.wait_until_whole)
        assert lagging.primary is first
        assert load.verdict() == ([], [])

"""One stage: Redis, hubs, the fleet and its borrowers, from the first process to what the drill has found out."""

from __future__ import annotations

import asyncio
import re
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from redis.asyncio import Redis

from tests.drill.borrowers import Borrowers
from tests.drill.fleet import Fleet, Node
from tests.world import HubProcess, RedisServer, free_port

SWEEP = re.compile(r" node sweep scanned=\d+ expired=(\d+) ")
BRAKE_PERCENT, BRAKE_MIN = 20, 3
FILL_S = 90.0
LOOK_S = 0.1  # between two checks of a condition


@dataclass(frozen=True)
class Sizes:
    """How large the drill is, and the times it runs on."""

    nodes: int = 10_000
    waiters: int = 1_000
    labels: int = 10
    hubs: int = 2
    timeout_s: float = 6.0
    sweep_s: float = 1.0
    killed: int = 10

    @property
    def lease_s(self) -> float:
        """Return a lifetime as short as the longest outage: all leases would lapse in it if the hub clock went on."""
        return self.timeout_s * 10

    @property
    def wait_s(self) -> float:
        """How long a borrower stands in the queue before it asks again."""
        return self.timeout_s * 5

    def environment(self) -> dict[str, str]:
        """Return the settings of the hubs: those of a deployment, all shortened alike, and a long enough queue."""
        return {
            "HUB_NODE_TIMEOUT": str(self.timeout_s),
            "HUB_SWEEPER_RECONNECT_GRACE_SECONDS": str(self.timeout_s / 2),
            "HUB_NODE_SWEEP_INTERVAL_SECONDS": str(self.sweep_s),
            "HUB_SWEEPER_BRAKE_PERCENT": str(BRAKE_PERCENT),
            "HUB_SWEEPER_BRAKE_MIN": str(BRAKE_MIN),
            "HUB_BORROW_TTL_SWEEP_SECONDS": str(self.timeout_s / 2),
            "HUB_BORROW_TTL_SECONDS": str(self.lease_s),
            "HUB_BORROW_QUEUE_TIMEOUT_SECONDS": str(self.wait_s),
            "HUB_BORROW_QUEUE_MAX_PER_LABEL": str(self.nodes + self.waiters),
        }


class TooLong(Exception):
    """A condition that the drill waited for did not come true."""


class Stage:
    """`async with Stage(sizes) as stage:` - all nodes registered, every wanted slot lent, and a long queue."""

    def __init__(self, sizes: Sizes, writing_share: float = 0.0) -> None:
        self.sizes = sizes
        self.fleet = Fleet(sizes.nodes, sizes.labels, writing_share)
        self._labels = set(self.fleet.wanted)
        self.ports = [free_port() for _ in range(sizes.hubs)]
        self.hubs: list[HubProcess] = []
        self.logs: list[Path] = []
        self.faults: list[str] = []
        self._folder = Path(tempfile.mkdtemp(prefix="hub-drill-"))
        self.redis = RedisServer(self._folder)
        self.client: Redis = Redis.from_url(self.redis.url, decode_responses=True)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closing = AsyncExitStack()

    async def __aenter__(self) -> Self:
        try:
            await self._set_up()
        except BaseException:
            await self._take_down()
            raise
        return self

    async def _set_up(self) -> None:
        sizes = self.sizes
        await self.start_redis()
        await self.start_hubs()
        node_secret, runner_secret = self.hubs[0].node_secret, self.hubs[0].runner_secret
        self._closing.push_async_callback(self.fleet.close)
        for job in await self.fleet.announce(self.ports, node_secret, self.redis.url, sizes.timeout_s):
            self._keep(asyncio.create_task(job))
        await self.until(lambda: self.fleet.heard_since(0), "everybody is registered", FILL_S)
        count = sizes.nodes + sizes.waiters
        self.borrowers = Borrowers(self.fleet, count, self.ports, runner_secret, sizes.lease_s, sizes.wait_s)
        self._closing.callback(self.borrowers.close)
        for task in self.borrowers.run():
            self._keep(task)
        try:
            await self.until(self._is_half_lent, "half of the slots are lent", FILL_S)
        except TooLong as late:
            self.faults.append(str(late))
        for node in self.fleet.nodes:
            node.forgotten = 0

    def _is_half_lent(self) -> bool:
        return len(self.borrowers.leases) > self.sizes.nodes * 0.99

    def _keep(self, task: asyncio.Task[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            self.faults.append(f"a simulated node or borrower broke off: {task.exception()!r}")

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._take_down()

    async def _take_down(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.remove_done_callback(self._ended)
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._closing.aclose()
        await self.client.aclose()
        self.kill_hubs()
        self.redis.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    # -- what may happen to it ------------------------------------------------------------------------------------

    def kill_hubs(self) -> None:
        """SIGKILL to every hub."""
        for hub in self.hubs:
            hub.kill()
        self.hubs = []

    async def start_hubs(self) -> None:
        """Start the hubs, on the ports they always had; the first one up sweeps."""
        for port in self.ports:
            hub = HubProcess({**self.sizes.environment(), "HUB_REDIS_URL": self.redis.url, "HUB_PORT": str(port)})
            self.hubs.append(hub)
            hub.keep_log()
            self.logs.append(hub.log_path)
            await asyncio.to_thread(hub.wait_until_ready, 60)

    async def start_redis(self, *, empty: bool = False) -> None:
        """Start Redis from its append-only file, or with nothing."""
        if empty:
            shutil.rmtree(self._folder / "appendonlydir")
        await asyncio.to_thread(self.redis.start)

    def pause_hub(self) -> HubProcess:
        """SIGSTOP to the hub that sweeps."""
        self.hubs[0].signal(signal.SIGSTOP)
        return self.hubs[0]

    async def timeouts(self, count: float) -> None:
        """Let so many node timeouts pass."""
        await asyncio.sleep(self.sizes.timeout_s * count)

    def kill(self, nodes: Iterable[Node]) -> list[Node]:
        """Let nodes fall silent for good."""
        dead = list(nodes)
        for node in dead:
            node.dead = True
        return dead

    # -- what became of it ----------------------------------------------------------------------------------------

    async def until(self, condition: Callable[[], bool], what: str, seconds: float) -> float:
        """Return how long it took until the condition held; raises `TooLong`."""
        started = time.monotonic()
        while not condition():
            if time.monotonic() - started > seconds:
                raise TooLong(f"not within {seconds:g} s: {what}")
            await asyncio.sleep(LOOK_S)
        return time.monotonic() - started

    def expired(self) -> int:
        """Return how many nodes all hubs say they have removed."""
        return sum(int(found) for log in self.logs for found in SWEEP.findall(log.read_text()))

    def forget_logs(self) -> None:
        """Remove the logs of the hubs."""
        for log in self.logs:
            log.unlink(missing_ok=True)

    async def gone(self, nodes: list[Node]) -> list[Node]:
        """Return the nodes that are deregistered and have no slot in any list and no lease."""
        pipe = self.client.pipeline(transaction=False)
        for node in nodes:
            pipe.sismember("nodes", node.id)
        off = [node for node, registered in zip(nodes, await pipe.execute(), strict=True) if not registered]
        pipe = self.client.pipeline(transaction=False)
        labels = {label for node in off for label in node.slots.values()}
        for label in labels:
            pipe.lrange(f"available:{label}", 0, -1)
            pipe.lrange(f"inuse:{label}", 0, -1)
        listed = "".join(item for items in await pipe.execute() for item in items) if off else ""
        return [node for node in off if not any(f'"{slot}"' in listed for slot in node.slots)]

    async def idle(self) -> Counter[str]:
        """Count wanted slots of healthy nodes that are idle although borrowers wait, by what the hub does with them.

        A slot counts only after two seconds: at any moment some are on their way to a borrower.
        """
        wanted = {slot for node in self.fleet.healthy for slot, label in node.slots.items() if label in self._labels}
        for _ in range(20):
            wanted -= self.borrowers.leases.keys()
            await asyncio.sleep(LOOK_S)
        pipe = self.client.pipeline(transaction=False)
        for slot in wanted:
            pipe.hget(f"hub:slot:{slot}", "place")
        return Counter(place or "unknown" for place in await pipe.execute())

    async def find(self, nodes: list[Node], seconds: float) -> dict[str, tuple[float, float]]:
        """Return for each node how long after its last beat it was gone, and how long the hub clock stood still then.

        A beat counts from when the store had it, where the store says so: on two busy cores it may have waited for more
        than a second in a hub that had not read it yet. Nodes that were not gone within the time are left out.
        """
        found: dict[str, tuple[float, float]] = {}
        taken: dict[str, float] = {}
        left = list(nodes)
        started, clock_ms = time.monotonic(), await self._clock_ms()
        while left and time.monotonic() - started < seconds:
            await asyncio.sleep(LOOK_S)
            taken |= await self._taken([node for node in left if node.skew_s is None])
            for node in await self.gone(left):
                now = time.monotonic()
                stood_s = now - started - (await self._clock_ms() - clock_ms) / 1000
                found[node.id] = (now - taken.get(node.id, node.heard), max(0.0, stood_s))
                left.remove(node)
        return found

    async def _taken(self, nodes: list[Node]) -> dict[str, float]:
        """Return when the store had the last beat of each node that is still on the books, by the monotonic clock."""
        pipe = self.client.pipeline(transaction=False)
        for node in nodes:
            pipe.hget(f"node:{node.id}", "LastSeen")
        texts = await pipe.execute()
        seconds, micros = await self.client.time()
        ahead_s = seconds + micros / 1e6 - time.monotonic()
        return {
            node.id: datetime.fromisoformat(text).timestamp() - ahead_s
            for node, text in zip(nodes, texts, strict=True)
            if text
        }

    async def _clock_ms(self) -> int:
        return int(await self.client.hget("hub:store", "clock_ms") or 0)  # type: ignore[misc]

"""Simulated nodes: agents that beat for hundreds of them over HTTP, and nodes that write Redis themselves.

A node does what `hub.client.NodeAgent` does: it keeps the version and the lent slots it was told of, and registers
again with them when a hub does not know it.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from redis.asyncio import Redis
from redis.exceptions import RedisError

from tests.drill.wire import Answer, NoAnswer, Wire, Wires, pause_s

NODES_PER_AGENT = 500  # at most; there are at least six agents, and always a number that can be divided by three
REGISTERING_AT_ONCE = 2  # per agent
BEATS_PER_TIMEOUT = 6  # of nodes that write themselves; the others beat as the hub asks them to
OWN_ALIVE_S = 90  # how long the alive key of such a node lives, under any timeout (contract, section 5.2)
NOTICED = 10  # seconds that a clock must be ahead to be called ahead


@dataclass(slots=True, eq=False)
class Node:
    """One node and what it knows. `skew_s` is set for one that writes Redis itself, by a clock that is off."""

    id: str
    slots: dict[str, str]  # slot -> label
    skew_s: float | None = None
    version: int = 0
    lent: dict[str, str] = field(default_factory=dict)
    registered: bool = False
    dead: bool = False
    heard: float = 0.0  # when it last knew that a beat of it was taken
    forgotten: int = 0  # how often a hub that had it on the books did not know it any more

    @property
    def ahead(self) -> bool:
        return self.skew_s is not None and self.skew_s > NOTICED

    def registration(self) -> dict[str, Any]:
        """Return the body that registers it; a node that writes itself has published its slots already."""
        body: dict[str, Any] = {"nodeId": self.id, "apps": sorted(self.slots.values()), "capacity": len(self.slots)}
        if self.skew_s is None:
            body |= {"policy": "reuse", "slots": [{"slotId": s, "labelKey": label} for s, label in self.slots.items()]}
            body |= {"lent": self.lent} if self.lent else {}
        return body

    def registered_by(self, answer: Answer) -> None:
        """Take over what the registration was answered.

        It is not heard by that: the alive key of a node that has registered and never beaten lives for 90 s (contract,
        section 5.2), and one that is killed then is dead only after those.
        """
        self.registered, self.version = True, 0
        for slot in answer.data.get("slots", ()):
            if slot["status"] == "published":
                self.lent.pop(slot["browserId"], None)

    def told(self, orders: dict[str, Any], sent: float) -> None:
        """Take over what a beat was answered."""
        if not orders["known"]:
            self.forgotten += 1
            self.registered = False
            return
        self.heard, self.version, self.lent = sent, orders["version"], orders.get("lent", self.lent)


class Agent:
    """Beats for its nodes in one call, and registers nodes that a hub does not know, a few at a time.

    A node that waits to be registered does not beat: the one heartbeat of an unknown node must be enough.
    """

    def __init__(self, nodes: list[Node], ports: Sequence[int], secret: str, timeout_s: float) -> None:
        self.nodes = nodes
        self.muted = False
        self._wire = Wire(ports, secret)
        self._wires = Wires(ports, secret, REGISTERING_AT_ONCE)
        self._pace_s = timeout_s / BEATS_PER_TIMEOUT
        self._registering: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Beat until cancelled."""
        await asyncio.sleep(self._pace_s * random.random())
        failures = 0
        while True:
            if self.muted:
                await asyncio.sleep(self._pace_s / 10)
                continue
            try:
                await self._beat()
                failures = 0
                wait_s = self._pace_s * random.uniform(0.9, 1.0)
            except NoAnswer:
                wait_s = min(pause_s(failures), self._pace_s * random.uniform(0.75, 1.0))
                failures += 1
            await asyncio.sleep(wait_s)

    def close(self) -> None:
        """Hang up."""
        for task in self._tasks:
            task.cancel()
        self._wire.close()
        self._wires.close()

    async def _beat(self) -> None:
        live = [node for node in self.nodes if not node.dead]
        known = [node for node in live if node.registered]
        if known:
            beats = [{"nodeId": node.id, "version": node.version} for node in known]
            body = orjson.dumps({"beats": beats})
            answer = await self._wire.post("/node/heartbeats", body, max(1.0, self._pace_s))
            if answer.status != 200:
                raise NoAnswer(f"beats were answered {answer.status}")
            orders = answer.data["beats"]
            self._pace_s = orders[0]["nextBeatMs"] / 1000
            for node, order in zip(known, orders, strict=True):
                node.told(order, answer.sent)
        for node in live:
            if not node.registered and node.id not in self._registering:
                self._registering.add(node.id)
                task = asyncio.create_task(self.register(node))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def register(self, node: Node) -> None:
        """Register a node, for as long as it takes."""
        failures = 0
        while not (node.registered or node.dead):
            if not self.muted:
                try:
                    answer = await self._wires.post("/node/register", node.registration(), max(1.0, self._pace_s))
                    if answer.status == 200:
                        node.registered_by(answer)
                        break
                except NoAnswer:
                    pass
            await asyncio.sleep(min(pause_s(failures), self._pace_s))
            failures += 1
        self._registering.discard(node.id)


class Writers:
    """Nodes that write their life signs into Redis themselves, each by its own clock (contract, section 5.2)."""

    def __init__(self, nodes: list[Node], redis_url: str, timeout_s: float) -> None:
        self.nodes = nodes
        self._pace_s = timeout_s / BEATS_PER_TIMEOUT
        self._redis = Redis.from_url(redis_url, decode_responses=True, socket_timeout=2)

    async def announce(self, ports: Sequence[int], secret: str) -> None:
        """Start as the original's nodes do: a beat, the slots, then the registration."""
        await self._beat()
        pipe = self._redis.pipeline(transaction=False)
        for node in self.nodes:
            for slot, label in node.slots.items():
                pipe.rpush(f"available:{label}", f'{{"nodeId":"{node.id}","browserId":"{slot}"}}')
        await pipe.execute()
        wires = Wires(ports, secret, 16)
        answers = [wires.post("/node/register", node.registration(), 10) for node in self.nodes]
        for node, answer in zip(self.nodes, await asyncio.gather(*answers), strict=True):
            assert answer.status == 200, answer.body
            node.registered_by(answer)
        wires.close()

    async def run(self) -> None:
        """Beat until cancelled."""
        while True:
            await asyncio.sleep(self._pace_s)
            try:
                await self._beat()
            except (RedisError, OSError):
                await asyncio.sleep(min(pause_s(0), self._pace_s / 2))

    async def close(self) -> None:
        """Hang up."""
        await self._redis.aclose()

    async def _beat(self) -> None:
        live = [node for node in self.nodes if not node.dead]
        pipe = self._redis.pipeline(transaction=False)
        now = datetime.now(UTC)
        for node in live:
            seen = now + timedelta(seconds=node.skew_s or 0)
            text = seen.strftime("%Y-%m-%dT%H:%M:%S.%f") + "0Z"
            pipe.hset(f"node:{node.id}", mapping={"LastSeen": text, "Labels": "{}", "Capacity": len(node.slots)})
            pipe.sadd("nodes", node.id)
            pipe.set(f"node_alive:{node.id}", "1", ex=OWN_ALIVE_S)
        sent = time.monotonic()
        await pipe.execute()
        for node in live:
            node.heard = sent


class Fleet:
    """All nodes: `n` with a slot under a label that is wanted and one under a label that is never asked for."""

    def __init__(self, nodes: int, labels: int, writing_share: float) -> None:
        self.wanted = [f"gpu:a100:zone-{number:02d}" for number in range(labels)]
        self.idle = [f"gpu:h100:zone-{number:02d}" for number in range(labels)]
        self.nodes = [self._node(number, number < nodes * writing_share) for number in range(nodes)]
        self.by_id = {node.id: node for node in self.nodes}
        self.agents: list[Agent] = []
        self._writers: Writers | None = None

    def _node(self, number: int, writes: bool) -> Node:
        name, turn = f"n{number:05d}", number % len(self.wanted)
        slots = {f"{name}-a": self.wanted[turn], f"{name}-b": self.idle[turn]}
        return Node(name, slots, random.uniform(-3600, 3600) if writes else None)

    async def announce(self, ports: Sequence[int], secret: str, redis_url: str, timeout_s: float) -> list[Any]:
        """Register all nodes; return what must run from then on."""
        writing = [node for node in self.nodes if node.skew_s is not None]
        others = [node for node in self.nodes if node.skew_s is None]
        count = 3 * max(2, -(-len(others) // (3 * NODES_PER_AGENT)))
        self.agents = [Agent(others[number::count], ports, secret, timeout_s) for number in range(count)]
        running = [agent.run() for agent in self.agents]
        if writing:
            self._writers = Writers(writing, redis_url, timeout_s)
            await self._writers.announce(ports, secret)
            running.append(self._writers.run())
        return running

    async def close(self) -> None:
        """Hang up everywhere."""
        for agent in self.agents:
            agent.close()
        if self._writers:
            await self._writers.close()

    @property
    def healthy(self) -> list[Node]:
        return [node for node in self.nodes if not node.dead]

    def heard_since(self, moment: float) -> bool:
        """Return whether every healthy node knows that it was heard after that moment."""
        return all(node.heard > moment and node.registered for node in self.healthy)

    def mute(self, agents: Iterable[Agent], muted: bool) -> None:
        """Cut agents off from every hub, or let them through again."""
        for agent in agents:
            agent.muted = muted

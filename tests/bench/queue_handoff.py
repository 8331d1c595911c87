"""From the answer to a return at one hub to the answer of the borrower who waits at another, over HTTP.

It is compared with the least that any design needs: a bare pub/sub round trip between two such processes, and one
answer.
"""

from __future__ import annotations

import asyncio
import json
import selectors
import socket
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median
from typing import Any

import orjson
from redis import Redis

from hub.store.keys import Keys
from tests.bench import fleet, machine, pubsub
from tests.bench.crowd import POOL, Crowd, Place
from tests.bench.report import Figure, Rounds
from tests.world import wait_until

ROUNDS, BLOCKS, EACH = 9, 4, 25  # in each block of a round so many of every kind: no kind has a quiet time to itself
CROWD, OTHER_LABELS = 10_000, 500
HUB = {
    "HUB_BORROW_QUEUE_MAX_PER_LABEL": "1000000",
    "HUB_NODE_TIMEOUT": "3600",  # the node of the slot never beats
    "HUB_KEEP_ALIVE_TIMEOUT_SECONDS": "300",  # a stage that is ready waits for the other
    "HUB_REQUEST_HEADERS_TIMEOUT_SECONDS": "120",
}
SETTLED_S = 0.002  # pause between entering and being served: each newcomer makes its hub check the queue once

Samples = list[float]


class Caller:
    """One connection to a hub; `answered` is when the last byte of the last answer came (monotonic)."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.answered = 0.0
        self._port = port
        self._received = b""

    def send(self, path: str, document: dict[str, Any]) -> float:
        """Post a request; returns when it was sent."""
        body = orjson.dumps(document)
        head = f"POST {path} HTTP/1.1\r\nhost: bench\r\nx-hub-secret: {machine.RUNNER_SECRET}\r\n"
        self._received, self.answered = b"", 0.0
        sent = time.monotonic()
        self.socket.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        return sent

    def take_in(self) -> bool:
        """Read what is there; whether the answer is complete."""
        data = self.socket.recv(65536)
        now = time.monotonic()
        if not data:
            raise ConnectionError(f"The hub on port {self._port} hung up")
        self._received += data
        head, found, body = self._received.partition(b"\r\n\r\n")
        length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
        if not found or len(body) < int(length):
            return False
        self.answered = now
        return True

    def answer(self) -> dict[str, Any]:
        """Return the document of the last answer."""
        answer: dict[str, Any] = orjson.loads(self._received.partition(b"\r\n\r\n")[2])
        return answer


@dataclass
class Stage:
    """A store with two hubs and one slot, which is always lent."""

    redis: Redis
    giver: Caller  # at one hub
    waiter: Caller  # at the other
    others: int = 0  # in line for the same label
    slot: str = ""
    token: str = ""

    def hand_off(self) -> float:
        """Return the seconds from the answer of the return to the waiter's; negative when the waiter's came first."""
        self.waiter.send("/session/borrow", {"labelKey": POOL, "ttlSeconds": 300, "priority": 100})
        while self.redis.zcard(Keys().queue(POOL)) == self.others:
            time.sleep(0.0005)
        time.sleep(SETTLED_S)
        self.giver.send("/session/return", {"labelKey": POOL, "browserId": self.slot, "leaseToken": self.token})
        _receive(self.giver, self.waiter)
        assert self.giver.answer() == {"returned": self.slot}, self.giver.answer()
        self._holds(self.waiter.answer())
        return self.waiter.answered - self.giver.answered

    def answer_only(self) -> float:
        """Seconds for a request to the waiter's hub that needs nothing from the store."""
        sent = self.waiter.send("/session/borrow", {})
        _receive(self.waiter)
        assert self.waiter.answer()["code"] == "missing-member", self.waiter.answer()
        return self.waiter.answered - sent

    def begin(self) -> None:
        """Borrow the slot."""
        self.giver.send("/session/borrow", {"labelKey": POOL, "ttlSeconds": 300})
        _receive(self.giver)
        self._holds(self.giver.answer())

    def _holds(self, grant: dict[str, Any]) -> None:
        self.slot, self.token = grant["browserId"], grant["leaseToken"]


def _receive(*callers: Caller) -> None:
    """Wait until each has its answer; on one clock, in the order in which they come."""
    with selectors.DefaultSelector() as selector:
        for caller in callers:
            selector.register(caller.socket, selectors.EVENT_READ, caller)
        while selector.get_map():
            ready = selector.select(timeout=20)
            assert ready, "no answer within 20 s"
            for key, _ in ready:
                if key.data.take_in():
                    selector.unregister(key.fileobj)


def run() -> list[Figure]:
    """Two stages, one with a crowd in line; every kind by turns."""
    with ExitStack() as stack:
        stack.enter_context(machine.on_core(machine.LOAD_CORE))
        empty, crowded = _stage(stack, 0), _stage(stack, CROWD)
        where = machine.url_of(empty.redis)
        for role in ("echo", "caller"):
            command = [sys.executable, "-m", "tests.bench.pubsub", where, role]
            stack.enter_context(machine.process(command, machine.SERVER_CORE))
        wait_until(lambda: empty.redis.llen(pubsub.READY) == 2)
        rounds = [_round(empty, crowded) for _ in range(1 + ROUNDS)][1:]  # the first only warms up
        assert crowded.redis.zcard(Keys().queue(POOL)) == crowded.others
        return _figures({kind: [each[kind] for each in rounds] for kind in rounds[0]})


def _stage(stack: ExitStack, crowd: int) -> Stage:
    redis = stack.enter_context(machine.redis_server())
    ports = [stack.enter_context(machine.hub_server(redis, **HUB)) for _ in range(2)]
    asyncio.run(_offer(redis))
    stage = Stage(redis, Caller(ports[0]), Caller(ports[1]))
    stage.begin()
    asyncio.run(_gather(redis, crowd))
    stage.others = int(redis.zcard(Keys().queue(POOL)))
    return stage


async def _offer(redis: Redis) -> None:
    await fleet.register(redis, [0])
    async with fleet.hub_on(redis) as hub:
        await fleet.publish(hub, fleet.node_id(0), POOL, ["s0"], policy="reuse")


async def _gather(redis: Redis, crowd: int) -> None:
    """At both hubs, queue half a crowd far behind for the slot, and the other half for labels without slots."""
    async with fleet.hub_on(redis) as hub:
        hub_ids = await hub.store.read("ZRANGE", hub.store.keys.hubs, 0, -1)
        assert len(hub_ids) == 2, hub_ids
        for number, hub_id in enumerate(hub_ids):
            await Crowd(hub, hub_id).gather(redis, [_place(n) for n in range(number, crowd, len(hub_ids))])


def _place(number: int) -> Place:
    label = POOL if number % 4 < 2 else f"shop:firefox:{number % OTHER_LABELS:03d}"
    return Place(label, f"crowd-{number:06d}", priority=-100)


def _round(empty: Stage, crowded: Stage) -> dict[str, Samples]:
    found: dict[str, Samples] = {"empty": [], "crowded": [], "round trip": [], "answer": []}
    for _ in range(BLOCKS):
        found["empty"] += [empty.hand_off() for _ in range(EACH)]
        found["crowded"] += [crowded.hand_off() for _ in range(EACH)]
        empty.redis.rpush(pubsub.GO, EACH)
        _, took = empty.redis.blpop([pubsub.TOOK], timeout=20) or ("", "no round trips within 20 s")
        found["round trip"] += json.loads(took)
        found["answer"] += [empty.answer_only() for _ in range(EACH)]
    return found


def _percentile(samples: Samples, share: float) -> float:
    return sorted(samples)[int(share * (len(samples) - 1) + 0.5)]


def _figures(found: dict[str, list[Samples]]) -> list[Figure]:
    floor = [
        [trip + answer for trip, answer in zip(*pair, strict=True)]
        for pair in zip(found["round trip"], found["answer"], strict=True)
    ]
    sides = {"empty": found["empty"], "crowded": found["crowded"], "floor": floor}
    p50 = {name: [_percentile(samples, 0.5) for samples in rounds] for name, rounds in sides.items()}
    p99 = {name: [_percentile(samples, 0.99) for samples in rounds] for name, rounds in sides.items()}

    def figure(name: str, rounds: Rounds, measured: Samples, baseline: Samples, at_most: float | None) -> Figure:
        note = f"{1000 * median(measured):.2f} ms against {1000 * median(baseline):.2f} ms, {rounds.spread}"
        return Figure(name, rounds.median, at_most=at_most, note=note)

    figures = []
    for name, of, at_most in (("p50", p50, None), ("p99", p99, 3.0)):
        rounds = Rounds.of(of["empty"], of["floor"])
        against = f"{name} against a pub/sub round trip and an answer"
        figures.append(figure(against, rounds, of["empty"], of["floor"], at_most))
    for name, of in (("p50", p50), ("p99", p99)):
        rounds = Rounds.of(of["crowded"], of["empty"])
        figures.append(figure(f"{name} with {CROWD:,} in line against none", rounds, of["crowded"], of["empty"], 1.2))
    return figures

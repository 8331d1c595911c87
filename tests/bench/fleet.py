"""Fleets as benchmarks need them: many nodes and slots, registered quickly by the hub's own commands."""

from __future__ import annotations

import asyncio
import random
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import hiredis
from redis import Redis

from hub.capacity.leases import KEEP_OWN_S
from hub.capacity.models import BorrowRequest, PublishedSlot, slot_item
from hub.core import Hub
from hub.settings import Settings
from hub.store.connection import open_store
from tests.bench.machine import url_of

FOREVER_S = 86_400.0  # a node timeout long enough that no node goes stale while a large fleet is registered
IN_FLIGHT = 200  # commands on their way to Redis at a time while it is
APPS, CAPACITY, LABELS = "gpu:a100", 4, '{"zone":"eu-1"}'
_SOMEBODY = "00000000-aaaa-4bbb-8ccc-0123456789ab"


def node_id(number: int) -> str:
    """Return the id of a node, as long as a UUID."""
    return f"{number:08x}-0000-4000-8000-{number * 7919:012x}"


@asynccontextmanager
async def hub_on(redis: Redis, **changes: Any) -> AsyncIterator[Hub]:
    """A hub in this process that neither ticks nor sweeps by itself."""
    settings = Settings(redis_url=url_of(redis), sweeper_expire=True, redis_timeout_s=60.0, **changes)
    async with open_store(settings) as store:
        hub = Hub(store, settings)
        await hub.agreed.once()
        yield hub


async def register(redis: Redis, numbers: Iterable[int], timeout_s: float = FOREVER_S) -> None:
    """Put nodes on the books with the command that `POST /node/register` runs."""
    async with hub_on(redis, node_timeout_s=timeout_s) as hub:
        command = hub.store.library.commands["nodes/register"]  # packed once, not a million times
        named = {
            "id": _SOMEBODY,
            "part": _SOMEBODY,
            "apps": APPS,
            "capacity": CAPACITY,
            "labels": LABELS,
            "base_url": "",
            "timeout_ms": int(timeout_s * 1000),
            "audit_new": "{}",
            "audit_old": "{}",
            "audit_max": 100,
            "incarnation": "",
            "said_term": "",
            "first": 0,
            "host": "",
            "token_ms": int(timeout_s * 1000),
        }
        arguments = command.ordered(["gpu:a100"], named)
        packed = hiredis.pack_command(hub.store.library.call(command.name, hub.store.keys, arguments))
    somebody = _SOMEBODY.encode()
    await asyncio.to_thread(send_all, redis, (packed.replace(somebody, node_id(n).encode()) for n in numbers))


def send_all(redis: Redis, commands: Iterable[bytes]) -> None:
    """Send packed commands, a few hundred at a time, and insist that none is refused."""
    where = redis.connection_pool.connection_kwargs
    reader = hiredis.Reader()
    with socket.create_connection(("127.0.0.1", where["port"])) as wire:
        wanted, batch = 0, []
        for command in commands:
            batch.append(command)
            if len(batch) == IN_FLIGHT:
                wire.sendall(b"".join(batch))
                wanted, batch = wanted + len(batch), []
                wanted = _receive(wire, reader, wanted)
        wire.sendall(b"".join(batch))
        _receive(wire, reader, wanted + len(batch))


def _receive(wire: socket.socket, reader: hiredis.Reader, wanted: int) -> int:
    while wanted:
        answer = reader.gets()
        if answer is False:
            reader.feed(wire.recv(65536))
            continue
        if isinstance(answer, Exception):
            raise answer
        wanted -= 1
    return 0


async def publish(hub: Hub, node: str, label: str, names: Iterable[str], policy: str = "recycle") -> list[str]:
    """Offer slots of a registered node."""
    slots = [
        PublishedSlot(name, label, slot_item(node, name, label.split(":")[1], {"endpoint": f"tcp://10.0.0.1/{name}"}))
        for name in names
    ]
    offered = await hub.pools.publish(node, slots, policy)
    assert {each.word for each in offered} <= {"published"}, offered
    return [slot.id for slot in slots]


def wanted(label: str, run: str = "bench") -> BorrowRequest:
    """A borrow as one without an Idempotency-Key is put to the store."""
    attempt = f"try-{secrets.token_hex(12)}"
    return BorrowRequest(
        label=label, ttl_ms=300_000, run=run, request=attempt, attempt=attempt, fingerprint="0" * 16, keep_s=KEEP_OWN_S
    )


async def side_by_side(calls: Iterable[Callable[[], Any]], at_once: int = 128) -> list[Any]:
    """Return the answers of many calls, so many at a time."""
    waiting, answers = list(calls), []
    for start in range(0, len(waiting), at_once):
        answers += await asyncio.gather(*(call() for call in waiting[start : start + at_once]))
    return answers


def usec_of(redis: Redis, *commands: str) -> float:
    """Microseconds Redis spent since the counters were reset, in the commands named or in all; asking not counted."""
    stats = redis.info("commandstats")
    chosen = [f"cmdstat_{name}" for name in commands] or [name for name in stats if name not in _ASKING]
    return float(sum(stats[name]["usec"] for name in chosen if name in stats))


_chance = random.Random(7)
_ASKING = {"cmdstat_info", "cmdstat_config|resetstat", "cmdstat_config|set", "cmdstat_slowlog|get"}


async def usec_per_script(redis: Redis, calls: Sequence[Callable[[], Any]], called: str = "fcall") -> float:
    """Microseconds a command took in Redis, on average.

    Redis collects what Lua leaves behind in steps, one with every 50th call: without calls of any number before, a
    collection would meet the same kind of call in every round.
    """
    pipe = redis.pipeline(transaction=False)
    for _ in range(_chance.randrange(400)):
        pipe.eval("return 1", 0)
    pipe.execute()
    redis.config_resetstat()
    await side_by_side(calls)
    stats = redis.info("commandstats")[f"cmdstat_{called}"]
    assert stats["calls"] == len(calls), stats
    return float(stats["usec"]) / len(calls)


def calls_of(redis: Redis, command: str) -> int:
    """Return how often a command ran since the counters were reset, inside scripts included."""
    stats = redis.info("commandstats")
    return int(stats.get(f"cmdstat_{command}", {}).get("calls", 0))

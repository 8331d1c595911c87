"""Borrow and return over HTTP to one hub process, against a FastAPI route that only validates a body."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from redis import Redis

from hub.tokens.models import Holder, digest_of, new_secret, user_of
from tests.bench import fleet, machine
from tests.bench.machine import Load, load
from tests.bench.report import Figure, Rounds

ROUNDS, SECONDS = 9, 3
CONNECTIONS = 64
POOLS, SLOTS_EACH = 20, 100


def run() -> list[Figure]:
    """Alternate between the two servers; slots are replaced by their nodes at once (`reuse`)."""
    with ExitStack() as stack:
        redis = stack.enter_context(machine.redis_server())
        validating = stack.enter_context(machine.baseline_server("validating"))
        hub = stack.enter_context(machine.hub_server(redis, HUB_NODE_TIMEOUT="3600"))  # its nodes never beat
        labels = [f"gpu:a100:zone-{n:02d}" for n in range(POOLS)]
        asyncio.run(offer(redis, labels))
        token = asyncio.run(_token(redis))
        bodies = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "borrows"
        bodies.write_text("".join(json.dumps({"labelKey": label, "ttlSeconds": 300}) + "\n" for label in labels))
        sides: dict[str, Callable[[], Load]] = {
            "hub": partial(load, "pairs", hub, CONNECTIONS, SECONDS, machine.RUNNER_SECRET, str(bodies)),
            "token": partial(load, "pairs", hub, CONNECTIONS, SECONDS, token, str(bodies)),
            "validating": partial(
                load, "post", validating, CONNECTIONS, SECONDS, "/session/borrow", machine.RUNNER_SECRET, str(bodies)
            ),
        }
        found: dict[str, list[Load]] = {name: [] for name in sides}
        for number in range(1 + ROUNDS):
            for name, side in sides.items():
                seen = side()
                asyncio.run(take_back(redis))
                if number:  # the first round only warms up
                    found[name].append(seen)
        return _figures(found, asyncio.run(_free(redis)))


async def offer(redis: Redis, labels: list[str]) -> None:
    """Slots of nodes that never beat, as many for each label."""
    await fleet.register(redis, range(POOLS), timeout_s=3600)
    async with fleet.hub_on(redis) as hub:
        for number, label in enumerate(labels):
            names = [f"s{number}-{n}" for n in range(SLOTS_EACH)]
            await fleet.publish(hub, fleet.node_id(number), label, names, policy="reuse")


async def take_back(redis: Redis) -> None:
    """Return the slots that the load generator still held at its end."""
    async with fleet.hub_on(redis) as hub:
        slots = await hub.store.read("ZRANGE", hub.store.keys.deadlines, 0, -1)
        await fleet.side_by_side([partial(hub.leases.give_back, slot, "gpu:a100", by="operator") for slot in slots])


async def _token(redis: Redis) -> str:
    """Return the secret of a token that may borrow the labels of the benchmark."""
    secret = new_secret()
    ada = Holder("ada", user_of("ada"), scopes=frozenset({"borrow"}), team="ml", labels=("gpu:*",), max_priority=10)
    async with fleet.hub_on(redis) as hub:
        await hub.tokens.create(ada, digest_of(secret) or "", 86_400)
    return secret


async def _free(redis: Redis) -> int:
    async with fleet.hub_on(redis) as hub:
        _, labels = await hub.pools.labels(0, POOLS)
        return sum(pool.free for pool in await hub.pools.describe(labels))


def _figures(found: dict[str, list[Load]], free: int) -> list[Figure]:
    rate = {name: [each.per_second for each in loads] for name, loads in found.items()}
    rounds = Rounds.of(rate["hub"], rate["validating"])
    hub, baseline = (sorted(rate[name])[ROUNDS // 2] for name in ("hub", "validating"))
    spent = Rounds.of(*([each.per_cpu_second for each in found[name]] for name in ("hub", "validating")))
    by_token = Rounds.of(*([each.per_cpu_second for each in found[name]] for name in ("hub", "token")))
    faults = sum(each.refused + each.broken for loads in found.values() for each in loads)
    note = f"{hub:,.0f} requests/s against {baseline:,.0f}/s, {rounds.spread}"
    return [
        Figure("requests against a FastAPI route that validates", rounds.median, at_least=0.5, note=note),
        Figure("... for each second of the server's processor", spent.median, at_least=0.8, note=spent.spread),
        Figure("processor time with a token against the secret", by_token.median, at_most=1.03, note=by_token.spread),
        Figure("slots lost on the way", POOLS * SLOTS_EACH - free, at_most=0, note=f"of {POOLS * SLOTS_EACH:,}"),
        Figure("answers other than 200, lost connections", faults, at_most=0),
    ]

"""The fair line while everything dies at random: each waiter is served, or told, and nothing is left behind.

They wait at two hubs for slots of three pools, in every way there is; operators set caps, drain and undrain meanwhile.
"""

from __future__ import annotations

import random
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from redis import Redis

from hub.doctor import examine
from hub.store.connection import open_store
from tests.races.chaos import NODE_TIMEOUT_S, SECONDS, TTL_S, Chaos, hub_settings
from tests.races.crew import Crew
from tests.races.ledger import broken, cut_by_dead_nodes, cut_by_expiry, holds, unanswered
from tests.races.watch import Watch
from tests.world import SECRETS, SLACK_S, RedisServer, wait_until

NODES = {"gpu:a100": ["n1", "n2"], "gpu:a100:eu": ["n3", "n4"], "gpu:h100:us": ["n5"]}  # two slots each
WANTED = ["gpu:a100", "gpu:a100:eu:rack1", "gpu:a100:eu", "gpu:h100", "gpu:h100:us:rack2"]  # longer, shorter, the same

pytestmark = [pytest.mark.race, pytest.mark.slow, pytest.mark.timeout(SECONDS + 600)]


async def test_every_waiter_is_served_or_told_although_processes_die(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    chaos = Chaos(redis_server)
    ports = [hub.port for hub in chaos.hubs]
    crew = {"slots": 2, "restart_s": [0.1, 0.1, NODE_TIMEOUT_S + 1.5]}
    nodes = [
        Crew(tmp_path, "node", names, ports, SECRETS["HUB_NODE_SECRET"], label=label, **crew)
        for label, names in NODES.items()
    ]
    names = [f"w{number}" for number in range(10)]
    waiters = Crew(tmp_path, "waiter", names, ports, SECRETS["HUB_RUNNER_SECRET"], labels=WANTED, ttl=TTL_S, end=9)
    try:
        wait_until(lambda: len({hold.slot for hold in holds(waiters.lines())}) == 10, 90)
        with Watch(redis_server.client()) as watch:
            chaos.run(nodes, waiters, SECONDS * 2 / 3, lambda: operate(chaos))
            wait_until(lambda: watch.waiters > 10 and len(holds(waiters.lines())) > 3 * SECONDS, 90)
        waiters.stop()
        come_to_rest(chaos, redis)
        settings = hub_settings(redis_server)
        async with open_store(settings) as store:
            assert await examine(store, settings=settings) == []
    finally:
        for each in (waiters, *nodes):
            each.stop()
        chaos.end()

    lines = waiters.lines()
    found = holds(lines)
    cut_by_dead_nodes(found, [line for crew in nodes for line in crew.lines()], NODE_TIMEOUT_S)
    cut_by_expiry(found, chaos.logs(), NODE_TIMEOUT_S)
    assert broken(found, lines) == []
    assert unanswered(lines, 8.0) == []
    assert chaos.complaints() == [], chaos.logs()
    ends = Counter(line["how"] for line in lines if line["event"] == "ends")
    print(f"{len(found)} leases; {dict(ends)}; killed {chaos.kills}; up to {watch.waiters} in line")
    print(f"a waiter stood beside a free slot for up to {watch.beside_s:.1f} s")
    assert (watch.beside_s < 2.0, watch.left) == (True, set())
    assert {"granted", "timeout", "gave up", "cut"} <= ends.keys()
    assert (watch.waiters > 10, min(chaos.kills.values()) >= 1, len(found) > 3 * SECONDS) == (True, True, True)


def operate(chaos: Chaos) -> None:
    """Do at random what an operator may do."""
    node = random.choice(random.choice(list(NODES.values())))
    chaos.ask("POST", f"/admin/nodes/{node}/{random.choice(['drain', 'undrain', 'undrain'])}")
    chaos.ask("PUT", f"/admin/caps/{random.choice(WANTED)}", {"cap": random.choice([1, 2, 5, None])})


def come_to_rest(chaos: Chaos, redis: Redis) -> None:
    """Wait, when all borrowers have gone, until every slot is free and the queue and its counts are empty."""

    def counts() -> tuple[int, ...]:
        free = sum(redis.llen(f"available:{label}") for label in NODES)
        return free, sum(redis.exists(f"inuse:{label}") for label in NODES), redis.scard("nodes")

    def left() -> list[str]:
        kinds = ("line:", "turns", "under:", "pending", "waiters:", "handed:", "asked:", "run:")
        return [key for key in redis.keys("hub:*") if key.removeprefix("hub:").startswith(kinds)]

    for label in WANTED:
        wait_until(partial(chaos.ask, "PUT", f"/admin/caps/{label}", {"cap": None}))
    for node in (name for names in NODES.values() for name in names):
        wait_until(partial(chaos.ask, "POST", f"/admin/nodes/{node}/undrain"))
    wait_until(
        lambda: counts() == (10, 0, 5), 60, why=lambda: f"(free, lent, nodes) stay at {counts()}\n{chaos.logs()}"
    )
    wait_until(lambda: left() == [], 6 + SLACK_S, why=lambda: f"left of the line: {left()}")

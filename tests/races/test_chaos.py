"""Everything dies at random: what must hold all the same.

Short in `make test`; the full length is `HUB_RACE_SECONDS=30 python -m pytest tests/races`.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from redis import Redis

from hub.doctor import examine
from hub.store.connection import open_store
from tests.races.chaos import NODE_TIMEOUT_S, SECONDS, TTL_S, Chaos, hub_settings
from tests.races.crew import Crew
from tests.races.ledger import broken, cut_by_dead_nodes, cut_by_expiry, holds, unanswered
from tests.races.watch import Watch
from tests.world import SECRETS, RedisServer, wait_until

POOL = "gpu:a100"

pytestmark = [pytest.mark.race, pytest.mark.slow, pytest.mark.timeout(SECONDS + 120)]


async def test_fifty_borrowers_ten_slots_two_hubs_and_everybody_may_die(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    chaos = Chaos(redis_server)
    ports = [hub.port for hub in chaos.hubs]
    offer = {"label": POOL, "slots": 2, "restart_s": [0.1, 0.1, NODE_TIMEOUT_S + 1.5]}
    nodes = [
        Crew(tmp_path, "node", ["n1", "n2", "n3", "n4"], ports, SECRETS["HUB_NODE_SECRET"], **offer),
        Crew(tmp_path, "agent", ["n5"], ports, SECRETS["HUB_NODE_SECRET"], **offer),
    ]
    names = [f"b{number}" for number in range(50)]
    borrowers = Crew(tmp_path, "borrower", names, ports, SECRETS["HUB_RUNNER_SECRET"], label=POOL, ttl=TTL_S, end=9)

    def counts() -> tuple[int, ...]:
        return redis.llen(f"available:{POOL}"), redis.exists(f"inuse:{POOL}"), redis.scard("nodes")

    try:
        wait_until(lambda: len({hold.slot for hold in holds(borrowers.lines())}) == 10, 30)
        chaos.run(nodes, borrowers, SECONDS)
        borrowers.stop()
        wait_until(
            lambda: counts() == (10, 0, 5), 30, lambda: f"(free, lent, nodes) stay at {counts()}\n{chaos.logs()}"
        )
        settings = hub_settings(redis_server)
        async with open_store(settings) as store:
            assert await examine(store, settings=settings) == []
    finally:
        for crew in (borrowers, *nodes):
            crew.stop()
        chaos.end()

    found = holds(borrowers.lines())
    cut_by_dead_nodes(found, [line for crew in nodes for line in crew.lines()], NODE_TIMEOUT_S)
    cut_by_expiry(found, chaos.logs())
    assert broken(found, borrowers.lines()) == []
    assert chaos.complaints() == [], chaos.logs()
    print(f"{len(found)} grants; killed {chaos.kills}")
    assert min(chaos.kills.values()) >= 2
    assert len(found) > 5 * SECONDS


NODES = {"gpu:a100": ["n1", "n2"], "gpu:a100:eu": ["n3", "n4"], "gpu:h100:us": ["n5"]}  # two slots each
# Served by longer pools, by shorter ones, by either; the last one has a cap most of the time.
WANTED = ["gpu:a100", "gpu:a100:eu:rack1", "gpu:a100:eu", "gpu:h100", "gpu:h100:us:rack2"]


async def test_whoever_waits_in_line_is_served_or_told_whoever_dies(
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

    def operate() -> None:
        node = random.choice(random.choice(nodes).names)
        chaos.ask("POST", f"/admin/nodes/{node}/{random.choice(['drain', 'undrain', 'undrain'])}")
        chaos.ask("PUT", f"/admin/caps/{random.choice(WANTED)}", {"cap": random.choice([1, 2, 5, None])})

    def counts() -> tuple[int, ...]:
        free = sum(redis.llen(f"available:{label}") for label in NODES)
        return free, sum(redis.exists(f"inuse:{label}") for label in NODES), redis.scard("nodes")

    try:
        wait_until(lambda: len({hold.slot for hold in holds(waiters.lines())}) == 10, 30)
        with Watch(redis_server.client()) as watch:
            chaos.run(nodes, waiters, SECONDS, operate)
        waiters.stop()
        for label in WANTED:
            wait_until(lambda label=label: chaos.ask("PUT", f"/admin/caps/{label}", {"cap": None}))
        for node in ("n1", "n2", "n3", "n4", "n5"):
            wait_until(lambda node=node: chaos.ask("POST", f"/admin/nodes/{node}/undrain"), 20)
        wait_until(
            lambda: counts() == (10, 0, 5), 30, lambda: f"(free, lent, nodes) stay at {counts()}\n{chaos.logs()}"
        )
        wait_until(lambda: of_the_line(redis) == [], 6, lambda: f"what is left of the line: {of_the_line(redis)}")
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
    cut_by_expiry(found, chaos.logs())
    assert broken(found, lines) == []
    assert unanswered(lines, 5.0) == []
    assert chaos.complaints() == [], chaos.logs()
    ends = Counter(line["how"] for line in lines if line["event"] == "ends")
    print(f"{len(found)} grants; {dict(ends)}; killed {chaos.kills}; up to {watch.waiters} in line")
    print(f"a waiter stood beside a free slot for up to {watch.beside_s:.1f} s")
    assert (watch.beside_s < 2.0, watch.left) == (True, set())
    assert {"granted", "timeout", "gave up", "cut"} <= ends.keys()
    assert watch.waiters > 10
    assert min(chaos.kills.values()) >= 2
    assert len(found) > 5 * SECONDS


def of_the_line(redis: Redis) -> list[str]:
    """Keys of the line, and counts of what is lent, that are gone when nobody waits and nothing is lent."""
    kinds = ("line:", "turns", "under:", "pending", "waiters:", "handed:", "asked:", "run:")
    return [key for key in redis.keys("hub:*") if key.removeprefix("hub:").startswith(kinds)]

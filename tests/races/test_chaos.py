"""Everything dies at random: what must hold all the same.

Short in `make test`; the full length is `HUB_RACE_SECONDS=30 python -m pytest tests/races`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from redis import Redis

from hub.doctor import examine
from hub.store.connection import open_store
from tests.races.chaos import NODE_TIMEOUT_S, SECONDS, TTL_S, Chaos, hub_settings
from tests.races.crew import Crew
from tests.races.ledger import broken, cut_by_dead_nodes, cut_by_expiry, holds
from tests.world import SECRETS, RedisServer, wait_until

POOL = "gpu:a100"

pytestmark = [pytest.mark.race, pytest.mark.slow, pytest.mark.timeout(SECONDS + 600)]


async def test_fifty_borrowers_on_ten_slots_and_two_hubs_lose_nothing_when_any_process_dies(
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
        wait_until(lambda: len({hold.slot for hold in holds(borrowers.lines())}) == 10, 90)
        chaos.run(nodes, borrowers, SECONDS)
        wait_until(lambda: len(holds(borrowers.lines())) > 5 * SECONDS, 90)
        borrowers.stop()
        wait_until(
            lambda: counts() == (10, 0, 5), 60, lambda: f"(free, lent, nodes) stay at {counts()}\n{chaos.logs()}"
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
    cut_by_expiry(found, chaos.logs(), NODE_TIMEOUT_S)
    assert broken(found, borrowers.lines()) == []
    assert chaos.complaints() == [], chaos.logs()
    print(f"{len(found)} leases; killed {chaos.kills}")
    assert min(chaos.kills.values()) >= 2
    assert len(found) > 5 * SECONDS

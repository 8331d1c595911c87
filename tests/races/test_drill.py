"""The outage drill in small, so that it works when it is wanted; `make drill` is the large one."""

from __future__ import annotations

import math

import pytest

from tests.drill.scenarios import measure
from tests.drill.stage import Sizes

pytestmark = [pytest.mark.race, pytest.mark.slow, pytest.mark.timeout(600)]


async def test_a_small_fleet_loses_nothing_when_redis_is_killed_and_started_again() -> None:
    sizes = Sizes(nodes=100, waiters=20, labels=2, timeout_s=5, sweep_s=0.5, killed=3)
    outcome = await measure("redis-restart", sizes)
    assert (outcome.expired, outcome.lost, outcome.twice, outcome.idle, outcome.faults) == (0, 0, 0, 0, ()), outcome
    assert all(found.seconds < math.inf for found in outcome.found)

"""A store with jobs, workers and tasks of every kind."""

from __future__ import annotations

import pytest
from redis import Redis

from hub.core import Hub
from tests.doctor.shop import Shop, furnish


@pytest.fixture
async def shop(hub: Hub, redis: Redis) -> Shop:
    """Return the names of what `furnish` has put into the store."""
    return await furnish(hub, redis)

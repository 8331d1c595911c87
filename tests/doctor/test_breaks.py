"""Each invariant broken by hand in one way: the doctor finds exactly that, mends it, and then finds nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import httpx
import pytest
from redis import Redis

from hub.core import Hub
from hub.doctor import Finding, examine
from tests.world import age_node, borrow, listed, publish

LABEL = "gpu:a100"
ASKED = "gpu:a100:eu"
ITEM = '{"nodeId":"n1","browserId":"s3","webSocketEndpoint":"","browserType":"a100","browserVersion":null,"args":null,"labels":{}}'


@pytest.fixture
async def fleet(api: httpx.AsyncClient, redis: Redis, hub: Hub) -> AsyncIterator[Redis]:
    """Node n1 with s1 lent under another label than its pool's and s2, s3 free; node n2 draining with s9 held back."""
    await publish(api, "n1", **{LABEL: ["s1", "s2", "s3"]})
    assert (await borrow(api, ASKED)).json()["browserId"] == "s1"
    await publish(api, "n2", **{"licence:catia": ["s9"]})
    assert (await api.post("/admin/nodes/n2/drain")).json()["heldBack"] == 1
    await hub.clock.tick()
    assert await look(hub) == []
    yield redis
    assert await look(hub) == []  # whatever was mended has left no new trouble


async def look(hub: Hub, *, repair: bool = False) -> list[Finding]:
    """An examination of a store on which no hub sweeps."""
    await hub.store.read("HINCRBY", hub.store.keys.store, "tick_ms", -3_600_000)
    return await examine(hub.store, repair=repair, settings=hub.settings, pause_s=0.01)


def clock_ms(redis: Redis) -> int:
    return int(redis.hget("hub:store", "clock_ms") or 0)


def an_hour_ago(redis: Redis, slot: str) -> None:
    redis.zadd("hub:deadlines", {slot: clock_ms(redis) - 3_600_000})


BREAKS: dict[str, tuple[Callable[[Redis], object], set[tuple[str, str, str]]]] = {
    "a slot listed twice in one list": (
        lambda redis: redis.rpush("available:gpu:a100", ITEM),
        {("C1", "slot s3 in available:gpu:a100", "listed more than once")},
    ),
    "a slot on offer under two labels": (
        lambda redis: redis.rpush("available:gpu:h100", ITEM),
        {
            ("C1", "slot s3 in available:gpu:a100, available:gpu:h100", "listed more than once"),
            ("C1", "slot s3 in available:gpu:h100", "listed more than once"),
        },
    ),
}

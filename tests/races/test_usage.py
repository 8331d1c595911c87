"""Hubs are killed while they lend, end leases and count them: every lease that the history says ended counts once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import httpx
import pytest
from redis import Redis

from tests.usage.figures import held_ms
from tests.world import HubProcess, eventually

pytestmark = [pytest.mark.race, pytest.mark.timeout(300)]
LABEL, KILLS = "gpu:a100", 6
SLOTS = 64  # a killed hub leaves the leases that it was about to answer with


async def test_hubs_killed_while_leases_end_count_each_lease_once(
    start_hub: Callable[..., HubProcess], redis: Redis
) -> None:
    quiet = {"HUB_NODE_TIMEOUT": "600", "HUB_SWEEPER_EXPIRE": "false", "HUB_HISTORY_MAX_ENTRIES": "1000000"}
    hubs = [start_hub(**quiet) for _ in range(2)]
    over = asyncio.Event()

    async def borrow_and_return() -> None:
        while not over.is_set():
            for hub in list(hubs):
                with contextlib.suppress(httpx.HTTPError):
                    async with hub.client("runner", timeout=5) as api:
                        for _ in range(20):
                            lease = (await api.post("/session/borrow", json={"labelKey": LABEL})).json()
                            if "browserId" in lease:
                                body = {name: lease[name] for name in ("browserId", "leaseToken")} | {"labelKey": LABEL}
                                await api.post("/session/return", json=body)

    async with hubs[0].client("node") as node:
        slots = [{"labelKey": LABEL, "slotId": f"s{n}"} for n in range(SLOTS)]
        answer = await node.post("/node/register", json={"nodeId": "n1", "slots": slots, "policy": "reuse"})
        assert answer.status_code == 200, answer.text
    borrowers = [asyncio.create_task(borrow_and_return()) for _ in range(4)]
    for kill in range(KILLS):
        ended = redis.xlen("hub:history")
        await eventually(lambda ended=ended: redis.xlen("hub:history") > ended + 100)
        hubs[kill % 2].kill()
        hubs[kill % 2] = await asyncio.to_thread(start_hub, **quiet)
    over.set()
    await asyncio.gather(*borrowers)
    for slot in range(SLOTS):  # those that a killed hub has lent, and no caller has returned
        async with hubs[0].client("runner") as api:
            await api.post("/session/return", json={"labelKey": LABEL, "browserId": f"s{slot}"})
    await eventually(lambda: not redis.zcard("hub:deadlines"))
    leases, held = held_ms(redis, {})
    assert leases > 100
    async with hubs[0].client("admin") as api:
        for by in ("user", "team", "label", "slot", "node"):
            found = (await api.get(f"/usage?by={by}")).json()["sum"]
            assert found["leases"] == leases
            assert abs(found["heldSeconds"] * 1000 - held) < 1000

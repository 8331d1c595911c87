"""Stores in which bundles wait, reserve and are lent among other borrows: the doctor finds nothing."""

from __future__ import annotations

import json

import pytest
from redis import Redis

from hub.capacity.shared import Shared
from hub.core import Hub
from hub.doctor import examine
from tests.doctor.bundled import ask_all, serve
from tests.doctor.classed import offer
from tests.doctor.test_classes_healthy import POOLS, STEPS, Random

WHERE = ("", "", "vram >= 40", 'zone == "eu"')


class RandomBundles(Random):
    """Bundles and single borrows on two nodes, one thing after the other."""

    async def step(self) -> None:
        often = (self.ask_all, self.ask_all, self.round, self.round, self.borrow, self.give_back, self.give_back)
        rare = (self.return_all, self.renew_all, self.leave, self.withdraw, self.offer, self.cap)
        await self.chance.choice((*often, *often, *rare))()

    async def offer(self) -> None:
        """Publish a few slots of a node."""
        node = self.chance.choice(("n1", "n2"))
        slots = {f"{node}-{self.chance.randrange(4)}": self.chance.choice(({"vram": 40, "zone": "eu"}, None))}
        await offer(self.hub, self.chance.choice(POOLS[:2]), slots, node=node, most=5)

    async def ask_all(self) -> None:
        self.tickets.append(f"ticket-{len(self.tickets)}")
        parts = [
            (self.chance.choice(POOLS[:2]), self.chance.choice(WHERE), self.chance.choice((1, 1, 2, 3)))
            for _ in range(self.chance.choice((1, 1, 2)))
        ]
        how = {name: self.chance.random() < 0.4 for name in ("sameNode", "together")}
        await ask_all(
            self.hub, self.tickets[-1], *parts, **how, wait_ms=self.chance.choice((0, 600_000, 600_000)),
            keyed=self.chance.choice((0, 1)), priority=self.chance.choice((0, 0, 60)),
        )  # fmt: skip

    async def round(self) -> None:
        await serve(self.hub, reserve_ms=self.chance.choice((0, 900_000, 900_000)))

    async def renew_all(self) -> None:
        for bundle in self.bundles():
            await self.hub.store.script("capacity/renew_bundle")(
                bundle=bundle, ttl_ms=600_000, max_ms=900_000, by="operator"
            )

    async def return_all(self) -> None:
        if bundles := self.bundles():
            await self.hub.store.script("capacity/return_bundle")(bundle=self.chance.choice(bundles), by="operator")

    async def withdraw(self) -> None:
        node = self.chance.choice(("n1", "n2"))
        await self.hub.store.script("capacity/withdraw")(
            slot=f"{node}-{self.chance.randrange(4)}", node=node, part=node, only_free="", incarnation="",
            said_number="", reason="",
        )  # fmt: skip

    def bundles(self) -> list[str]:
        """Return the bundles that have leases."""
        holders = [self.redis.hget(key, "holder") for key in sorted(self.redis.scan_iter("session:*"))]
        return list(
            dict.fromkeys(found["bundle"] for each in holders if each and "bundle" in (found := json.loads(each)))
        )


@pytest.mark.parametrize("seed", range(3))
async def test_a_store_with_bundles_has_nothing_to_repair(hub: Hub, redis: Redis, seed: int) -> None:
    await hub.clock.tick()
    await hub.store.script("queue/agree")(hub="", given=Shared(600_000, True, True, False, 0, (), 0).text)
    store = RandomBundles(hub, redis, seed)
    for _ in range(30):
        await store.offer()
    reserved, waited, lent = 0, 0, 0
    for number in range(STEPS):
        await store.step()
        reserved, waited = reserved + redis.scard("hub:reserved"), waited + redis.zcard("hub:bundles")
        lent += len(store.bundles())
        if number % 20 == 19:
            redis.hincrby("hub:store", "tick_ms", -3_600_000)
            assert await examine(hub.store, settings=hub.settings, pause_s=0.01) == []
            await hub.clock.tick()
    assert min(reserved, waited, lent) > 0, "the walk meets bundles in every state"

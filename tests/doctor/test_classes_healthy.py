"""Stores in which slots with attributes come, change and go while tickets want some: the doctor finds nothing."""

from __future__ import annotations

import random

import pytest
from redis import Redis

from hub.capacity.shared import Shared
from hub.core import Hub
from hub.doctor import examine
from tests.doctor.classed import HUB, ask, offer

POOLS = ("gpu:a100", "gpu:a100:eu", "gpu:h100", "cpu:arm")
LABELS = (*POOLS, "gpu:a100:eu:lab", "gpu", "gpu:*", "*:arm")
WHERE = ("vram >= 40", "vram == 24", 'zone == "eu"', 'vram > 24 && zone != "us"', "spot", "vram < 0", "")
STEPS = 120


class Random:
    """One thing after the other at a store; slots and tickets have the names of their numbers."""

    def __init__(self, hub: Hub, redis: Redis, seed: int) -> None:
        self.hub, self.redis, self.chance = hub, redis, random.Random(seed)
        self.tickets: list[str] = []

    async def step(self) -> None:
        """Do something."""
        await self.chance.choice(
            (self.publish, self.publish, self.borrow, self.borrow, self.borrow, self.give_back, self.give_back,
             self.leave, self.withdraw, self.cap)
        )()  # fmt: skip

    async def publish(self) -> None:
        slot = f"s{self.chance.randrange(8)}"
        like = {"vram": self.chance.choice((24, 40, 80)), "zone": self.chance.choice(("eu", "us"))}
        if self.chance.random() < 0.2:
            like = {"spot": True}
        warm = self.chance.choice(("", "repo-1", "repo-1 repo-2"))
        said = self.chance.choice((like, like, like, None))
        await offer(self.hub, self.chance.choice(POOLS), {slot: said}, warm=warm, most=5)

    async def borrow(self) -> None:
        self.tickets.append(f"ticket-{len(self.tickets)}")
        choices = {
            self.chance.choice(LABELS): self.chance.choice(WHERE) for _ in range(self.chance.choice((1, 1, 2, 3)))
        }
        choices = {label: where or ("vram > 0" if label.count(":") == 0 else "") for label, where in choices.items()}
        await ask(
            self.hub, self.tickets[-1], *choices.items(), prefer=self.chance.choice(("", "", "repo-2 repo-1")),
            wait_ms=self.chance.choice((0, 600_000, 600_000)), keyed=self.chance.choice((0, 1)),
            priority=self.chance.choice((0, 0, 60)),
        )  # fmt: skip

    async def give_back(self) -> None:
        if lent := sorted(self.redis.scan_iter("session:*")):
            key = self.chance.choice(lent)
            label, token = self.redis.hmget(key, "labelKey", "leaseToken")
            await self.hub.leases.give_back(key.partition(":")[2], label, token)

    async def leave(self) -> None:
        if self.tickets:
            ticket = self.chance.choice(self.tickets)
            await self.hub.store.script("capacity/undo")(request=ticket, attempt=f"{ticket}-try", hub=HUB, why="gone")

    async def withdraw(self) -> None:
        slot = f"s{self.chance.randrange(8)}"
        await self.hub.store.script("capacity/withdraw")(
            slot=slot, node="n1", part="n1", only_free="", incarnation="", said_number="", reason=""
        )

    async def cap(self) -> None:
        label, cap = self.chance.choice(LABELS), self.chance.choice(("", "0", "1", "2"))
        served = self.chance.choice(("", "1")) if label in POOLS else ""
        await self.hub.store.script("queue/set_cap")(label=label, cap=cap, served=served)


@pytest.mark.parametrize("options", ["110", "111", "100", "010"])
@pytest.mark.parametrize("seed", range(2))
async def test_a_store_in_use_has_nothing_to_repair(hub: Hub, redis: Redis, seed: int, options: str) -> None:
    await hub.clock.tick()
    trailing, prefix, wildcards = (each == "1" for each in options)
    given = Shared(600_000, trailing, prefix, wildcards, 0, (), 0)
    await hub.store.script("queue/agree")(hub="", given=given.text)
    store = Random(hub, redis, seed)
    for number in range(STEPS):
        await store.step()
        if number % 20 == 19:
            redis.hincrby("hub:store", "tick_ms", -3_600_000)
            assert await examine(hub.store, settings=hub.settings, pause_s=0.01) == []
            await hub.clock.tick()

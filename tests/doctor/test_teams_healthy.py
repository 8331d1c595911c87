"""Stores in which teams share pools, wait and have leases recalled: the doctor finds nothing."""

from __future__ import annotations

import pytest
from redis import Redis

from hub.capacity.shared import Shared
from hub.core import Hub
from hub.doctor import Finding, examine
from tests.doctor.classed import ask, offer, take
from tests.doctor.teamed import balance, holder_of, remove_team, set_team
from tests.doctor.test_bundles_healthy import WHERE, RandomBundles
from tests.doctor.test_classes_healthy import STEPS

TEAMS = ("", "a", "b", "c")
PATTERNS = ("gpu:*", "gpu:*", "gpu:a100*", "*")
POOLS = ("gpu:a100", "gpu:h100", "cpu:arm")
LABELS = (*POOLS, "gpu:a100:eu", "gpu", "gpu:*")


class RandomTeams(RandomBundles):
    """Borrowers of several teams, and rows that come and go."""

    async def step(self) -> None:
        often = (self.borrow, self.borrow, self.borrow, self.give_back, self.give_back, self.rounds)
        rare = (self.ask_all, self.return_all, self.round, self.renew_all, self.leave, self.withdraw, self.offer)
        of_rows = (self.set_row, self.remove_row, self.cap)
        await self.chance.choice((*often, *often, *often, *rare, *of_rows, self.squeeze))()

    async def offer(self) -> None:
        node = self.chance.choice(("n1", "n2"))
        slots = {f"{node}-{self.chance.randrange(4)}": self.chance.choice(({"vram": 40, "zone": "eu"}, None))}
        await offer(self.hub, self.chance.choice(POOLS), slots, node=node, most=5)

    async def borrow(self) -> None:
        self.tickets.append(f"ticket-{len(self.tickets)}")
        choices = {self.chance.choice(LABELS): self.chance.choice(WHERE) for _ in range(self.chance.choice((1, 1, 2)))}
        choices = {label: where or ("vram > 0" if label.count(":") == 0 else "") for label, where in choices.items()}
        await ask(
            self.hub, self.tickets[-1], *choices.items(), holder=holder_of(self.chance.choice(TEAMS)),
            wait_ms=self.chance.choice((0, 600_000, 600_000)), keyed=self.chance.choice((0, 1)),
            priority=self.chance.choice((0, 0, 60)),
        )  # fmt: skip

    async def give_back(self) -> None:
        if lent := sorted(self.redis.scan_iter("session:*")):
            key = self.chance.choice(lent)
            label, token = self.redis.hmget(key, "labelKey", "leaseToken")
            await self.hub.leases.give_back(key.partition(":")[2], label, token, by="operator")

    async def set_row(self) -> None:
        guarantee = self.chance.choice((0, 1, 3))
        ceiling = self.chance.choice((None, None, guarantee, guarantee + 1))
        weight = self.chance.choice((0.5, 1, 2))
        await set_team(
            self.hub, self.chance.choice(TEAMS), self.chance.choice(PATTERNS), guarantee=guarantee, ceiling=ceiling,
            weight=weight,
        )  # fmt: skip

    async def squeeze(self) -> None:
        """Lend all slots to team b, and let team a wait for its guarantee."""
        await set_team(self.hub, "a", guarantee=8)
        await set_team(self.hub, "b")
        for _ in range(8):
            await take(self.hub, "gpu:*", holder=holder_of("b"))
        self.tickets.append(f"ticket-{len(self.tickets)}")
        await ask(self.hub, self.tickets[-1], ("gpu:*", ""), holder=holder_of("a"))
        await balance(self.hub)

    async def remove_row(self) -> None:
        await remove_team(self.hub, self.chance.choice(TEAMS), self.chance.choice(PATTERNS))

    async def rounds(self) -> None:
        await balance(self.hub)


async def faults(hub: Hub) -> list[Finding]:
    """Return what the doctor finds, apart from guarantees for which too little is published."""
    found = await examine(hub.store, settings=hub.settings, pause_s=0.01)
    return [each for each in found if not each.problem.startswith("guarantees")]


@pytest.mark.parametrize("seed", range(4))
async def test_a_store_with_teams_has_nothing_to_repair(hub: Hub, redis: Redis, seed: int) -> None:
    await hub.clock.tick()
    await hub.store.script("queue/agree")(hub="", given=Shared(600_000, True, True, True, 0, (), 0).text)
    store = RandomTeams(hub, redis, seed)
    for _ in range(20):
        await store.offer()
    await set_team(hub, "a", guarantee=2)
    recalled, waited, held = 0, 0, 0
    for number in range(STEPS):
        await store.step()
        recalled += sum(redis.zcard(key) for key in redis.scan_iter("hub:recalled:*"))
        waited += sum(redis.zcard(key) for key in redis.scan_iter("hub:team_line:*"))
        held += sum(redis.zcard(key) for key in redis.scan_iter("hub:team_leases:*"))
        if number % 10 == 9:
            redis.hincrby("hub:store", "tick_ms", -3_600_000)
            assert await faults(hub) == []
            await hub.clock.tick()
    assert min(recalled, waited, held) > 0, "the walk meets teams in every state"

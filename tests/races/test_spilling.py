"""Spill-over while hubs are killed: a ticket gets one lease, in one of two realms; no slot is lent without a holder."""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from hub.doctor import examine
from hub.settings import Settings
from hub.store.connection import open_store
from tests.realms.world import write_realms
from tests.world import SECRETS, HubProcess, RedisServer, eventually, settings_for

RACES = int(os.environ.get("HUB_SPILL_RACES", "300"))
LABELS = [f"gpu:l{number}:eu" for number in range(16)]
TTL_S = 4.0
PATIENCE_S = 40.0  # of a caller, through the start of a hub
NODE, RUNNER = ({"x-hub-secret": SECRETS[f"HUB_{role}_SECRET"]} for role in ("NODE", "RUNNER"))
SETTINGS = {
    "HUB_REALMS": "eu,us",
    "HUB_NODE_TIMEOUT": "3600",
    "HUB_BORROW_TTL_MIN_SECONDS": "1",
    "HUB_BORROW_TTL_SWEEP_SECONDS": "0.5",
    "HUB_BORROW_QUEUE_MAX_PER_LABEL": "10000",
}

pytestmark = [
    pytest.mark.race,
    pytest.mark.slow,
    pytest.mark.timeout(RACES / 4 + 600),
]
Lease = tuple[str, str, str]  # realm, slot, token


@pytest.fixture
def other(tmp_path: Path) -> Iterator[RedisServer]:
    """The store of us."""
    with RedisServer(tmp_path / "us") as server:
        yield server


class Hubs:
    """Two hubs that serve both realms; one after the other is killed, and started again where it was."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment
        self.hubs = [HubProcess(environment), HubProcess(environment)]
        self.all = list(self.hubs)
        self.kills = 0
        for hub in self.hubs:
            hub.wait_until_ready()

    async def kill_for_ever(self) -> None:
        while True:
            which = self.kills % 2
            old, left = self.hubs[which], self.hubs[1 - which]
            await eventually(partial(self.is_ready, left), 120)
            await asyncio.to_thread(old.kill)
            self.kills += 1
            self.hubs[which] = HubProcess({**self._environment, "HUB_PORT": str(old.port)})
            self.all.append(self.hubs[which])
            await asyncio.sleep(random.uniform(0.5, 3))

    async def is_ready(self, hub: HubProcess) -> bool:
        try:
            async with httpx.AsyncClient(base_url=hub.url, timeout=10) as client:
                answer = await client.get("/realms", headers=RUNNER)
                return answer.is_success and all(each["state"] == "open" for each in answer.json()["realms"])
        except httpx.HTTPError:
            return False

    def complaints(self) -> list[str]:
        lines = [line for hub in self.all for line in hub.log().splitlines()]
        return [line for line in lines if " ERROR " in line or line.startswith("Traceback")]


class Races:
    """Plays races, and knows what every caller was told."""

    def __init__(self, hubs: Hubs, client: httpx.AsyncClient) -> None:
        self._hubs, self._client = hubs, client
        self.told: dict[str, set[Lease]] = defaultdict(set)
        self.codes: Counter[str] = Counter()
        self.ended = 0
        self._names = iter(range(RACES))

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        """Call hubs at random until one answers; return the answer."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                url = random.choice(self._hubs.hubs).url + path
                try:
                    answer = await self._client.request(method, url, json=body, headers={**RUNNER, **headers})
                except httpx.HTTPError:
                    await asyncio.sleep(0.05)
                    continue
                if answer.status_code != 503 or answer.json()["code"] in ("timeout", "no-capacity"):
                    return answer
                await asyncio.sleep(0.05)

    async def borrow(self, label: str, wait_s: float, key: str) -> Lease | None:
        body = {"labelKey": label, "ttlSeconds": TTL_S, "runId": key, "maxWaitSeconds": wait_s}
        answer = await self.ask("POST", "/session/borrow", body, **{"idempotency-key": key})
        said = answer.json()
        self.codes[said.get("code", f"lent by {said.get('realm', 'eu')}")] += 1
        if not answer.is_success:
            return None
        lease = (said.get("realm", "eu"), said["browserId"], said["leaseToken"])
        self.told[key].add(lease)
        return lease

    async def give_back(self, label: str, lease: Lease) -> None:
        body = {"labelKey": label, "browserId": lease[1], "leaseToken": lease[2]}
        assert (await self.ask("POST", "/session/return", body)).is_success

    async def play(self, label: str) -> None:
        """Race after race for the slots of a label, one in each realm."""
        for number in self._names:
            await self._race(label, f"race-{number}")
            self.ended += 1

    async def _race(self, label: str, key: str) -> None:
        before = await self.borrow(label, 0, f"{key}-before") if random.random() < 0.8 else None
        calls = [asyncio.create_task(self._call(label, key)) for _ in range(random.choice([1, 2, 3]))]
        if random.random() < 0.15:
            calls.append(asyncio.create_task(self._give_up(key)))
        await asyncio.sleep(random.uniform(0, 0.06))
        if before:
            await self.give_back(label, before)
        await asyncio.gather(*calls)
        for lease in self.told[key]:
            await self.give_back(label, lease)
        if random.random() < 0.2:  # a key is not good for another one
            await self.borrow(label, 5, key)

    async def _call(self, label: str, key: str) -> None:
        await asyncio.sleep(random.choice([0, random.uniform(0, 0.05)]))
        try:
            async with asyncio.timeout(random.uniform(0, 0.15) if random.random() < 0.25 else None):
                await self.borrow(label, 20, key)
        except TimeoutError:
            self.codes["hung up"] += 1

    async def _give_up(self, key: str) -> None:
        await asyncio.sleep(random.uniform(0, 0.06))
        await self.ask("DELETE", f"/queue/{key}", **{"x-hub-realm": "eu"})


@pytest.fixture
async def hubs(redis_server: RedisServer, other: RedisServer, tmp_path: Path) -> AsyncIterator[Hubs]:
    """Slots of every label, one in each realm."""
    spilling = {"labels": ["gpu:*:eu"], "spill_to": ["us"], "spill_after_s": 0}
    file = write_realms(tmp_path / "realms.toml", eu=(redis_server.url, spilling), us=(other.url, {}))
    found = Hubs({"HUB_REDIS_URL": redis_server.url, "HUB_REALMS_FILE": str(file), **SETTINGS})
    try:
        for hub in found.hubs:
            await eventually(partial(found.is_ready, hub), 60)
        async with httpx.AsyncClient(base_url=found.hubs[0].url, headers=NODE, timeout=30) as client:
            for realm in ("eu", "us"):
                slots = [{"labelKey": label, "slotId": f"{realm}-{label.replace(':', '.')}"} for label in LABELS]
                answer = await client.post(f"/realms/{realm}/node/register", json={"nodeId": realm, "slots": slots})
                assert answer.is_success, answer.text
        yield found
    finally:
        for hub in found.all:
            hub.kill()


async def test_a_ticket_that_spills_over_gets_one_lease_although_processes_die(hubs, redis_server, other):
    async with httpx.AsyncClient(timeout=60, limits=httpx.Limits(max_connections=None)) as client:
        races = Races(hubs, client)
        killing = asyncio.create_task(hubs.kill_for_ever())
        try:
            await asyncio.gather(*(races.play(label) for label in LABELS))
        finally:
            killing.cancel()
            await asyncio.wait([killing])
        for hub in hubs.hubs:
            await eventually(partial(hubs.is_ready, hub), 120)

        async def at_rest() -> bool:
            """Return whether no slot is lent and no ticket waits."""
            lent = [
                (await races.ask("GET", "/sessions", **{"x-hub-realm": each})).json()["total"] for each in ("eu", "us")
            ]
            queue = (await races.ask("GET", "/queue", **{"x-hub-realm": "eu"})).json()["waiting"]
            return [*lent, queue] == [0, 0, 0]

        await eventually(at_rest, 60)

    assert {key: leases for key, leases in races.told.items() if len(leases) > 1} == {}
    holders = Counter(lease for leases in races.told.values() for lease in leases)
    assert [lease for lease, times in holders.items() if times > 1] == []
    realms = Counter(realm for key, leases in races.told.items() for realm, *_ in leases if "before" not in key)
    print(f"{races.ended} races, {hubs.kills} hubs killed; leases {dict(realms)}; answers {dict(races.codes)}")
    assert (races.ended, hubs.kills > 0, min(realms["eu"], realms["us"]) > RACES / 50) == (RACES, True, True)
    assert hubs.complaints() == []
    for realm, server in (("eu", redis_server), ("us", other)):
        settings = in_realm(server, realm)
        async with open_store(settings) as store:
            assert await examine(store, settings=settings) == []


def in_realm(server: RedisServer, realm: str) -> Settings:
    return settings_for(server.url, realm=realm, key_prefix=f"{{{realm}}}:", node_timeout_s=3600)

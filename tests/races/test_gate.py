"""Gates, callers, slots and hubs that die at random: no byte reaches a slot after a later lease of it has begun.

Short in `make test`; `HUB_GATE_KILLS=200 python -m pytest tests/races/test_gate.py` is the full length.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import httpx
import pytest
from redis import Redis

from hub.client import HubClient, HubError
from hub.doctor import examine
from hub.store.connection import open_store
from tests.gate.gates import LABEL, GateProcess, node_of
from tests.world import HubProcess, RedisServer, eventually, free_port, settings_for

KILLS = int(os.environ.get("HUB_GATE_KILLS", "16"))
GRACE_S, TTL_S = 1.0, 2.0
SLOTS, CALLERS, DIRECT = 3, 6, 2
SETTINGS = {
    "HUB_REVOKE_GRACE_SECONDS": str(GRACE_S),
    "HUB_NODE_TIMEOUT": "30",  # the node is a part of this process, and lives
}
ECHO = Path(__file__).parent / "echo_slot.py"

pytestmark = [pytest.mark.race, pytest.mark.slow, pytest.mark.timeout(300 + 10 * KILLS)]


class GateRace:
    """The processes of one race, and those that use them."""

    def __init__(self, redis_server: RedisServer, folder: Path) -> None:
        self._folder = folder
        self._environment = {"HUB_REDIS_URL": redis_server.url, **SETTINGS}
        self.hub = HubProcess(self._environment)
        self.hub.wait_until_ready()
        self.gates = [GateProcess(self.hub, **SETTINGS).__enter__() for _ in range(2)]
        self.ports = {f"s{n}": free_port() for n in range(SLOTS)}
        self.slots = {name: self._slot(name) for name in self.ports}
        self.counts: Counter[str] = Counter()
        self.over = False

    def _slot(self, name: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, str(ECHO), str(self.ports[name]), str(self._folder / name)])

    @property
    def addresses(self) -> dict[str, str]:
        """Return the slots that the node publishes."""
        return {name: f"ws://127.0.0.1:{port}/" for name, port in self.ports.items()}

    def ledger(self) -> list[dict[str, int]]:
        """Return what the slots have noted; the last line of one that was killed may be broken."""
        found = []
        for name in self.ports:
            for line in (self._folder / name).read_text().splitlines():
                with contextlib.suppress(ValueError):
                    found.append(json.loads(line))
        return found

    async def call(self, number: int) -> None:
        """Open connections through the gates one after the other, and send without pause on each."""
        while not self.over:
            gate = random.choice(self.gates)
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                async with asyncio.timeout(20):
                    reader, writer = await asyncio.open_connection("127.0.0.1", gate.port)
                await self._use(reader, writer, gate)
            await asyncio.sleep(0.01)

    async def _use(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: GateProcess) -> None:
        head = f"GET /connect/{LABEL}?ttl={TTL_S}&wait=5 HTTP/1.1\r\nHost: {gate.host}\r\nUpgrade: websocket\r\n"
        writer.write(f"{head}Connection: Upgrade\r\nx-hub-secret: {gate.secret}\r\n\r\n".encode())
        reading = None
        try:
            async with asyncio.timeout(20):
                answer = await reader.readuntil(b"\r\n\r\n")
            if b" 101 " not in answer:
                return
            self.counts["connections"] += 1
            reading = asyncio.ensure_future(reader.read(-1))
            ends = time.monotonic() + random.choice([0.1, 0.5, 5.0])
            while time.monotonic() < ends and not reading.done() and not self.over:
                writer.write(b"\x82\x05hello")
                await asyncio.sleep(0.005)
            if random.random() < 0.3:
                writer.transport.abort()
        finally:
            writer.close()
            if reading is not None:
                reading.cancel()
                await asyncio.wait([reading])
                if not reading.cancelled():
                    reading.exception()

    async def call_directly(self) -> None:
        """Borrow without a gate, and use the slot at once: a later lease is seen there as soon as it begins."""
        async with HubClient(self.hub.url, self.hub.runner_secret, timeout=2) as client:
            while not self.over:
                with contextlib.suppress(HubError, OSError):
                    async with client.borrow(LABEL, ttl=TTL_S, wait=5) as slot:
                        reader, writer = await asyncio.open_connection("127.0.0.1", self.ports[slot.id])
                        writer.write(f"GET / HTTP/1.1\r\nx-hub-lease-token: {slot.token}\r\n\r\n".encode())
                        await asyncio.wait([asyncio.ensure_future(reader.read(10))], timeout=1)
                        writer.close()
                        self.counts["direct"] += 1
                await asyncio.sleep(0.02)

    async def kill(self) -> None:
        """Kill one of what there is, or let a gate stand still, or take a slot from its holder."""
        kind = random.choice(["gate", "stop", "stop", "stop", "slot", "hub", "revoke"])
        self.counts[kind] += 1
        if kind == "gate":
            which = random.randrange(len(self.gates))
            old = self.gates[which]
            old.kill()
            self.gates[which] = GateProcess(self.hub, **SETTINGS, HUB_GATE_PORT=str(old.port))
        elif kind == "stop":
            gate = random.choice(self.gates)
            gate.signal(signal.SIGSTOP)
            if random.random() < 0.5:  # its leases end early, or by themselves, or go on
                for name in self.ports:
                    await self._revoke(name)
                await asyncio.sleep(GRACE_S * 1.5)
            else:
                await asyncio.sleep(random.choice([0.3, TTL_S * 1.6]))
            gate.signal(signal.SIGCONT)
        elif kind == "slot":
            name = random.choice(list(self.slots))
            self.slots[name].kill()
            self.slots[name].wait()
            self.slots[name] = self._slot(name)
        elif kind == "hub":
            self.hub.kill()
            await asyncio.sleep(random.choice([0.0, GRACE_S * 1.5]))
            self.hub = HubProcess({**self._environment, "HUB_PORT": str(self.hub.port)})
        else:
            await self._revoke(random.choice(list(self.ports)))

    async def _revoke(self, name: str) -> None:
        with contextlib.suppress(httpx.HTTPError):
            async with self.hub.client("runner", timeout=2) as api:
                body = {"labelKey": LABEL, "browserId": name, "revoke": True}
                await api.post("/session/return", json=body)

    def end(self) -> None:
        """End all processes."""
        for each in (*self.gates, self.hub):
            with contextlib.suppress(OSError):
                each.signal(signal.SIGCONT)
            each.kill()
        for slot in self.slots.values():
            slot.kill()
            slot.wait()


async def test_no_byte_reaches_a_slot_after_a_later_lease_of_it_has_begun(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    race = GateRace(redis_server, tmp_path)
    try:
        async with node_of(race.hub, race.addresses):
            users = [asyncio.ensure_future(race.call(n)) for n in range(CALLERS)]
            users += [asyncio.ensure_future(race.call_directly()) for _ in range(DIRECT)]
            for _ in range(KILLS):
                await race.kill()
                seen = race.counts["connections"] + race.counts["direct"]
                await eventually(lambda seen=seen: race.counts["connections"] + race.counts["direct"] > seen + 3, 60)
            race.over = True
            await asyncio.wait(users)
            assert all(user.exception() is None for user in users), users
            await eventually(lambda: redis.zcard("hub:deadlines") == 0, 60)
        async with open_store(settings_for(redis_server.url)) as store:
            assert await examine(store, settings=settings_for(redis_server.url)) == []
    finally:
        race.end()
    ledger = race.ledger()
    print(dict(race.counts), f"{len(ledger)} pieces, {sum(line['bytes'] for line in ledger)} bytes")
    assert [line for line in ledger if line["token"] < line["newest"]] == []
    assert sum(line["bytes"] for line in ledger) > 1000 * KILLS

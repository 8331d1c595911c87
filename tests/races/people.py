"""Borrowers as they come: some use the client, some speak HTTP, hang up, come back or never return what they hold."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import httpx

from hub.client import HubClient, LeaseLost, Slot
from hub.errors import HubError

Note = Callable[..., None]
AT_ONCE = 4  # calls that one process has in the line at the same time


class AnyHub(httpx.AsyncBaseTransport):
    """Sends to a hub that can be connected to, as a load balancer would."""

    def __init__(self, ports: list[int]) -> None:
        self._ports = random.sample(ports, len(ports))
        self._inner = httpx.AsyncHTTPTransport(verify=False)

    def another(self) -> None:
        """Send to another hub from now on."""
        self._ports.append(self._ports.pop(0))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        for _ in self._ports:
            request.url = request.url.copy_with(port=self._ports[0])
            try:
                return await self._inner.handle_async_request(request)
            except httpx.ConnectError:
                self.another()
        raise httpx.ConnectError("no hub takes connections")

    async def aclose(self) -> None:
        await self._inner.aclose()


async def borrow_for_ever(job: dict[str, Any], name: str, note: Note) -> None:
    """Borrow, see whether the slot is ours, hold it, give it back; now and then hold it for longer than a lease."""
    transport = AnyHub(job["ports"])
    async with HubClient("http://127.0.0.1:1", job["secret"], timeout=5, transport=transport) as client:
        while True:
            try:
                async with client.borrow(job["label"], ttl=job["ttl"], run=name, wait=10) as slot:
                    until = time.time() + slot.seconds_left()
                    note("holds", slot=slot.id, token=slot.token, node=slot.node_id, until=until)
                    found = await client.verify(slot.id, slot.token)
                    if not found["valid"] and slot.seconds_left() > 0:
                        note("invalid", slot=slot.id, token=slot.token, why=found.get("reason"))
                    hold_s = random.uniform(0.02, 0.4) if random.random() < 0.9 else job["ttl"] * 1.5
                    ends = time.monotonic() + hold_s
                    while time.monotonic() < ends:
                        await asyncio.sleep(0.03)
                        if (later := time.time() + slot.seconds_left()) > until + 0.1:
                            until = later
                            note("holds", slot=slot.id, token=slot.token, node=slot.node_id, until=until)
                    note("gives", slot=slot.id, token=slot.token)
            except LeaseLost as lost:
                note("lost", why=str(lost))
            except HubError as refused:
                note("refused", why=refused.code)
            await asyncio.sleep(random.uniform(0, job.get("pause_s", 0.02)))


async def wait_for_ever(job: dict[str, Any], name: str, note: Note) -> None:
    """Stand in line in every way there is, over and over; several calls at a time."""
    transport = AnyHub(job["ports"])
    async with HubClient("http://127.0.0.1:1", job["secret"], timeout=5, transport=transport) as client:
        names = [f"{name}.{os.getpid()}.{number}" for number in range(AT_ONCE)]
        await asyncio.gather(*(_Waiter(job, each, note, client).run() for each in names))


@dataclass
class _Ask:
    """One wanted to be served; `id` is in the log, and the run of the lease."""

    id: str
    label: str
    wait_s: float = field(default_factory=lambda: random.choice([0.5, 3.0, 8.0]))
    priority: int = field(default_factory=lambda: random.choice([0, 0, 0, 3, -3]))


class _Waiter:
    """Asks, holds for a moment, gives back."""

    def __init__(self, job: dict[str, Any], name: str, note: Note, client: HubClient) -> None:
        self._job, self._name, self._note, self._client = job, name, note, client
        self._any_hub = AnyHub(job["ports"])
        self._http = httpx.AsyncClient(
            base_url="http://127.0.0.1:1",
            headers={"x-hub-secret": job["secret"]},
            transport=self._any_hub,
            timeout=None,  # that every call ends is what is to be shown
        )

    async def run(self) -> None:
        ways = (self._by_client, self._by_client, self._client_gives_up, self._plainly, self._hang_up, self._come_back)
        for number in itertools.count():
            ask, way = _Ask(f"{self._name}-{number}", random.choice(self._job["labels"])), random.choice(ways)
            self._note("asks", ask=ask.id, wait=ask.wait_s, way=way.__name__)
            try:
                await way(ask)
            except TimeoutError:
                self._ends(ask, "gave up")
            except HubError as refused:
                self._ends(ask, refused.code)
            except httpx.HTTPError:
                self._ends(ask, "cut")
            await asyncio.sleep(random.uniform(0, 0.05))

    def _ends(self, ask: _Ask, how: str) -> None:
        self._note("ends", ask=ask.id, how=how)

    async def _by_client(self, ask: _Ask) -> None:
        await self._hold_slot(ask, await self._acquire(ask))

    async def _client_gives_up(self, ask: _Ask) -> None:
        async with asyncio.timeout(random.uniform(0, 1)):
            slot = await self._acquire(ask)
        await self._hold_slot(ask, slot)

    async def _plainly(self, ask: _Ask) -> None:
        await self._take(ask, await self._post(ask))

    async def _hang_up(self, ask: _Ask) -> None:
        async with asyncio.timeout(random.uniform(0, 1)):
            answer = await self._post(ask)
        await self._take(ask, answer)

    async def _come_back(self, ask: _Ask) -> None:
        """With the same key at another hub; what the first was granted meanwhile is this one's."""
        for _ in range(2):
            try:
                async with asyncio.timeout(random.uniform(0, 0.5)):
                    await self._post(ask, ask.id)
                break  # the answer is thrown away, as if it were lost
            except (TimeoutError, httpx.HTTPError):
                self._any_hub.another()
        await self._take(ask, await self._post(ask, ask.id))

    async def _acquire(self, ask: _Ask) -> Slot:
        return await self._client.acquire(
            ask.label, ttl=self._job["ttl"], run=ask.id, wait=ask.wait_s, priority=ask.priority
        )

    async def _post(self, ask: _Ask, key: str = "") -> httpx.Response:
        body = {"labelKey": ask.label, "ttlSeconds": self._job["ttl"], "runId": ask.id, "priority": ask.priority}
        headers = {"idempotency-key": key} if key else {}
        return await self._http.post("/session/borrow", json={**body, "maxWaitSeconds": ask.wait_s}, headers=headers)

    async def _take(self, ask: _Ask, answer: httpx.Response) -> None:
        said = answer.json()
        if answer.is_success:
            until = datetime.fromisoformat(said["expiresAtUtc"]).timestamp() - 0.2  # it was worked out a moment late
            await self._hold(ask, said["browserId"], said["leaseToken"], said["nodeId"], until)
        else:
            self._ends(ask, said["code"])

    async def _hold_slot(self, ask: _Ask, slot: Slot) -> None:
        await self._hold(ask, slot.id, slot.token, slot.node_id, time.time() + slot.seconds_left())

    async def _hold(self, ask: _Ask, slot: str, token: str, node: str | None, until: float) -> None:
        self._ends(ask, "granted")
        self._note("holds", slot=slot, token=token, node=node, until=until)
        found = await self._client.verify(slot, token)
        if not found["valid"] and time.time() < until:
            self._note("invalid", slot=slot, token=token, why=found.get("reason"))
        if random.random() < self._job.get("forgets", 0.05):
            return  # forgotten: the lease ends it
        await asyncio.sleep(random.uniform(0.02, 0.3))
        self._note("gives", slot=slot, token=token)
        back = {"labelKey": ask.label, "browserId": slot, "leaseToken": token}
        await self._http.post("/session/return", json=back)

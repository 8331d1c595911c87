"""A hub with much going on: nodes, borrowers who wait, tasks that failed, records that are stuck."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from tests.world import HubProcess, RedisServer, eventually

NODES = 200
WAITERS = 50
STUCK = 120
KINDS = ("browser:chromium:eu", "browser:firefox:eu", "gpu:a100:eu", "gpu:h100:us", "device:pixel-9", "licence:matlab")
CROWDED = "gpu:a100:eu"
J = "/v1/joblib"
CALM = {  # nothing of what is planted goes away by itself
    "HUB_NODE_TIMEOUT": "600",
    "HUB_NODE_SWEEP_INTERVAL_SECONDS": "1",
    "HUB_BORROW_QUEUE_TIMEOUT_SECONDS": "300",
    "HUB_REQUEST_TIMEOUT_SECONDS": "400",
    "HUB_BORROW_QUEUE_MAX_PER_RUN": "100",
    "HUB_WORKER_TIMEOUT_SECONDS": "600",
    "HUB_BORROW_TTL_SECONDS": "3600",
    "HUB_ZOMBIE_CLEANUP_INTERVAL_MINUTES": "60",
}


def node_name(number: int) -> str:
    """`rack-007`."""
    return f"rack-{number:03}"


class Records:
    """Orders in SQLite, of which some are stuck."""

    def __init__(self, folder: Path) -> None:
        self.database = folder / "orders.db"
        self.file = folder / "recovery.toml"
        with sqlite3.connect(self.database) as open_:
            open_.execute("CREATE TABLE orders (id TEXT PRIMARY KEY, status TEXT, updated_at TEXT)")
            open_.execute("CREATE INDEX orders_stuck ON orders (status, updated_at)")
        fields = {"name": "orders", "url": f"sqlite+aiosqlite:///{self.database}", "table": "orders"}
        self.file.write_text(
            "[[sources]]\n" + "".join(f"{name} = {json.dumps(text)}\n" for name, text in fields.items())
        )

    def get_stuck(self, first: int, many: int) -> None:
        """Add so many orders that began hours ago and never ended."""
        at = [datetime.now(UTC) - timedelta(hours=2, minutes=number % 600) for number in range(many)]
        rows = [(f"order-{first + n:04}", "Processing", t.strftime("%Y-%m-%d %H:%M:%S")) for n, t in enumerate(at)]
        with sqlite3.connect(self.database) as open_:
            open_.executemany("INSERT INTO orders VALUES (?, ?, ?)", rows)

    def bring_back(self) -> None:
        """Nothing is stuck any more."""
        with sqlite3.connect(self.database) as open_:
            open_.execute("UPDATE orders SET status = 'Pending'")

    def status(self, order: str) -> str:
        """Return the status of an order."""
        with sqlite3.connect(self.database) as open_:
            return str(open_.execute("SELECT status FROM orders WHERE id = ?", (order,)).fetchone()[0])


class Stage:
    """A hub with nodes, leases, waiters, tasks and records to look at."""

    def __init__(self, hub: HubProcess) -> None:
        self.hub = hub
        self.node = hub.client("node", timeout=60)
        self.runner = hub.client("runner", timeout=400, limits=httpx.Limits(max_connections=200))
        self.admin = hub.client("admin", timeout=60)
        self.waiting: list[asyncio.Task[Any]] = []
        self.worker = ""

    async def add_nodes(self, many: int = NODES, slots: int = 2, first: int = 0) -> None:
        """Nodes with slots of the kinds, in turn."""
        for number in range(first, first + many):
            name, kind = node_name(number), KINDS[number % len(KINDS)]
            labels = {"zone": "eu" if number % 3 else "us", "room": f"r{number % 7}"}
            offered = {f"{name}-{slot}": kind for slot in range(slots)}
            await self.publish(name, offered, apps=[kind], capacity=slots, labels=labels)

    async def publish(self, node: str, slots: dict[str, str], **facts: Any) -> None:
        """A node with these slots, each of a label."""
        offered = [{"labelKey": label, "slotId": slot} for slot, label in slots.items()]
        body = {"nodeId": node, "apps": sorted(set(slots.values())), "slots": offered, **facts}
        answer = await self.node.post("/node/register", json=body)
        assert answer.is_success, answer.text

    async def beat(self, *numbers: int) -> None:
        """A heartbeat of each of these nodes."""
        beats = [{"nodeId": node_name(number)} for number in numbers]
        (await self.node.post("/node/heartbeats", json={"beats": beats})).raise_for_status()

    async def borrow(self, label: str, run: str = "ci-1", **more: Any) -> dict[str, Any]:
        """Return a slot of the label."""
        answer = await self.runner.post("/session/borrow", json={"labelKey": label, "runId": run, **more})
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        return found

    async def crowd(self, label: str = CROWDED, waiters: int = WAITERS) -> None:
        """Lend all slots of a label and let some borrowers wait for it."""
        _, free = await self._counts(label)
        for number in range(free):
            await self.borrow(label, f"nightly-{number % 9}")
        await self.wait_for(label, waiters)

    async def wait_for(self, label: str, many: int) -> None:
        """Let so many borrowers wait."""
        before = (await self.admin.get("/queue")).json()["waiting"]
        for number in range(many):
            body = {"labelKey": label, "runId": f"train-{number % 12}"}
            self.waiting.append(asyncio.create_task(self.runner.post("/session/borrow", json=body)))

        async def all_wait() -> bool:
            return bool((await self.admin.get("/queue")).json()["waiting"] >= before + many)

        await eventually(all_wait, 60)

    async def _counts(self, label: str) -> tuple[int, int]:
        found = (await self.admin.get(f"/pools/{label}")).json()
        return found["total"], found["available"]

    async def work(self) -> None:
        """A worker, tasks of every kind of fate, and dead letters."""
        self.worker = await self.offer("modifiers:Rotate")
        for full in ("analysis:Density", "selections:Still"):
            await self.offer(full, self.worker)
        await self.submit("modifiers:Rotate", 30)
        await self.submit("analysis:Density", 30)
        for number in range(36):
            claim = {"worker_id": self.worker, "limit": 1, "start": number % 3 != 2}
            (task,) = (await self.admin.post(f"{J}/tasks/claim", json=claim)).json()["tasks"]
            if number % 3 == 0:
                await self._move(task["id"], {"status": "failed", "error": "RuntimeError: CUDA out of memory"})
            elif number % 3 == 1:
                await self._move(task["id"], {"status": "completed"})
        await self.bury(12)
        await self.schedule("nightly", "modifiers:Bake", cron="30 2 * * mon-fri", timeZone="Europe/Berlin")
        await self.schedule("refresh", "analysis:Density", everySeconds=5400)
        await self.schedule("weekly", "modifiers:Rotate", cron="0 6 * * sun", paused=True)

    async def offer(self, full: str, worker: str = "") -> str:
        """Return a job of the room `lab`, and the worker that serves it."""
        category, name = full.split(":")
        body = {"category": category, "name": name, "schema": {"type": "object"}}
        answer = await self.admin.put(f"{J}/rooms/lab/jobs", json=body | ({"worker_id": worker} if worker else {}))
        answer.raise_for_status()
        return worker or str(answer.json()["worker_id"])

    async def submit(self, full: str, many: int, **more: Any) -> None:
        """Submit so many tasks."""
        body = {"payloads": [{"frame": number, "quality": "high"} for number in range(many)], **more}
        (await self.admin.post(f"{J}/rooms/lab/tasks/lab:{full}", json=body)).raise_for_status()

    async def schedule(self, name: str, full: str, **times: Any) -> None:
        """A schedule of a job, both in the room `lab`."""
        body = {"job": f"lab:{full}", "payload": {"quality": "high"}, **times}
        (await self.admin.put(f"{J}/rooms/lab/schedules/{name}", json=body)).raise_for_status()

    async def bury(self, many: int) -> None:
        """Make so many dead letters."""
        worker = await self.offer("modifiers:Bake")
        await self.submit("modifiers:Bake", many, maxAttempts=2, backoffSeconds=0)

        async def all_dead() -> bool:
            claim = {"worker_id": worker, "limit": many, "start": True}
            for task in (await self.admin.post(f"{J}/tasks/claim", json=claim)).json()["tasks"]:
                await self._move(task["id"], {"status": "failed", "error": "ValueError: texture is missing"})
            return bool((await self.admin.get(f"{J}/dead")).json()["total"] == many)

        await eventually(all_dead, 60)

    async def _move(self, task: str, body: dict[str, Any]) -> None:
        (await self.admin.patch(f"{J}/tasks/{task}", json=body)).raise_for_status()

    async def drain(self, *numbers: int) -> None:
        """Drain nodes."""
        for number in numbers:
            (await self.admin.post(f"/admin/nodes/{node_name(number)}/drain", json={})).raise_for_status()

    async def close(self) -> None:
        """Cancel the waiting borrowers and close the clients."""
        for task in self.waiting:
            task.cancel()
        await asyncio.gather(*self.waiting, return_exceptions=True)
        for client in (self.node, self.runner, self.admin):
            await client.aclose()


@asynccontextmanager
async def on_stage(hub: HubProcess) -> AsyncIterator[Stage]:
    """An empty stage on a hub."""
    stage = Stage(hub)
    try:
        yield stage
    finally:
        await stage.close()


@asynccontextmanager
async def staged(server: RedisServer, **settings: str) -> AsyncIterator[Stage]:
    """An empty stage on a calm hub of its own."""
    with HubProcess({**CALM, "HUB_REDIS_URL": server.url, **settings}) as hub:
        async with on_stage(hub) as stage:
            yield stage


async def full_house(stage: Stage, records: Records | None = None) -> None:
    """Everything there is to look at."""
    await stage.add_nodes()
    await stage.crowd()
    for number in range(60):
        await stage.borrow(KINDS[number % 2], f"e2e-{number % 6}")
    await stage.work()
    await stage.drain(1, 8, 15)
    await stage.admin.put("/admin/caps/licence:matlab", json={"cap": 12, "by": "ann"})
    await stage.admin.post("/admin/tokens", json={"user": "ann", "superuser": True})
    await stage.admin.post("/admin/tokens", json={"user": "bob", "scopes": ["read"]})
    if records:
        records.get_stuck(1000, STUCK)

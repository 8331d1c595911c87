"""Heartbeats over HTTP to one hub process, against a server that does nothing and against etcd's lease keep-alive."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import httpx
from redis import Redis

from tests.bench import fleet, machine
from tests.bench.machine import Load, load
from tests.bench.report import Figure, Rounds

ROUNDS, SECONDS = 9, 3
CONNECTIONS = 128
NODES, LEASES = 10_000, 1_000
PATH = "/node/heartbeat"


def run() -> list[Figure]:
    """Alternate between the three servers, then look whether every acknowledged beat is in Redis."""
    with ExitStack() as stack:
        redis = stack.enter_context(machine.redis_server())
        etcd = stack.enter_context(machine.etcd_server())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        renewals = _file(folder / "leases", asyncio.run(_leases(etcd)))
        empty = stack.enter_context(machine.baseline_server("empty"))
        hub = stack.enter_context(machine.hub_server(redis))
        asyncio.run(fleet.register(redis, range(NODES), timeout_s=60))
        beats = _file(folder / "beats", [{"nodeId": fleet.node_id(n), "version": 0} for n in range(NODES)])
        sides = {
            "hub": partial(load, "post", hub, CONNECTIONS, SECONDS, PATH, machine.NODE_SECRET, str(beats)),
            "empty": partial(load, "post", empty, CONNECTIONS, SECONDS, PATH, machine.NODE_SECRET, str(beats)),
            "etcd": partial(load, "post", etcd, CONNECTIONS, SECONDS, "/v3/lease/keepalive", "-", str(renewals)),
        }
        for warm_up in sides.values():
            warm_up()
        before = _counted(hub)
        redis.config_resetstat()
        found: dict[str, list[Load]] = {name: [] for name in sides}
        for _ in range(ROUNDS):
            for name, side in sides.items():
                found[name].append(side())
        in_redis, counted = fleet.calls_of(redis, "set"), _counted(hub) - before
        unseen = asyncio.run(_beats_not_in_redis(hub, redis))
        return [*_ratios(found), *_kept_beats(found, in_redis, counted, unseen)]


def _file(path: Path, documents: Sequence[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(each, separators=(",", ":")) + "\n" for each in documents))
    return path


async def _leases(port: int) -> list[dict[str, object]]:
    """Leases as etcd grants them, each as the body of a keep-alive."""
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:

        async def grant() -> dict[str, object]:
            answer = await client.post("/v3/lease/grant", json={"TTL": 3600})
            return {"ID": answer.json()["ID"]}

        return await fleet.side_by_side([grant] * LEASES, at_once=50)


def _counted(port: int) -> int:
    """Heartbeats of known nodes that the hub says it has answered."""
    text = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=10).text
    lines = [line for line in text.splitlines() if line.startswith('hub_heartbeats_total{known="true"}')]
    return int(float(lines[0].split()[-1])) if lines else 0


async def _beats_not_in_redis(port: int, redis: Redis) -> int:
    """Beat for nodes whose trace in Redis was wiped, and look for it at the moment of each acknowledgement."""
    names = [fleet.node_id(n) for n in range(NODES // 10)]
    for name in names:
        redis.delete(f"node_alive:{name}")
        redis.zadd("hub:beats", {name: 0})
    missing = 0
    headers = {"x-hub-secret": machine.NODE_SECRET}
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=30) as client:

        async def beat(name: str) -> None:
            nonlocal missing
            answer = await client.post(PATH, json={"nodeId": name})
            there = redis.exists(f"node_alive:{name}") and redis.zscore("hub:beats", name)
            missing += not (there and answer.json()["known"])

        await fleet.side_by_side([partial(beat, name) for name in names], at_once=50)
    return missing


def _ratios(found: dict[str, list[Load]]) -> list[Figure]:
    rate = {name: [each.per_second for each in loads] for name, loads in found.items()}
    hub = sorted(rate["hub"])[ROUNDS // 2]
    shown = []
    for name, target in (("empty", 0.65), ("etcd", 1.8)):
        rounds = Rounds.of(rate["hub"], rate[name])
        other = sorted(rate[name])[ROUNDS // 2]
        note = f"{hub:,.0f}/s against {other:,.0f}/s, {rounds.spread}"
        against = "an empty ASGI application" if name == "empty" else "etcd's HTTP lease keep-alive"
        shown.append(Figure(f"rate against {against}", rounds.median, at_least=target, note=note))
    spent = Rounds.of(*([each.per_cpu_second for each in found[name]] for name in ("hub", "empty")))
    name = "rate against it, for each second of the server's processor"
    return [shown[0], Figure(name, spent.median, at_least=0.75, note=spent.spread), *shown[1:]]


def _kept_beats(found: dict[str, list[Load]], in_redis: int, counted: int, unseen: int) -> list[Figure]:
    acknowledged = sum(each.answered for each in found["hub"])
    faults = sum(each.refused + each.broken for loads in found.values() for each in loads)
    # When the load ends, each connection may have a heartbeat under way whose answer is not read.
    under_way = ROUNDS * CONNECTIONS
    note = f"{acknowledged:,} acknowledged, {counted:,} counted by the hub, {in_redis:,} written in Redis"
    return [
        Figure("beats acknowledged beyond those in Redis", max(0, acknowledged - in_redis), at_most=0, note=note),
        Figure("beats counted beyond those under way", max(0, counted - acknowledged - under_way), at_most=0),
        Figure("beats not in Redis at their acknowledgement", unseen, at_most=0, note=f"of {NODES // 10:,}"),
        Figure("answers other than 200, lost connections", faults, at_most=0),
    ]

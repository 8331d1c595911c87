"""One token floods a Redis of 20 MB with tasks: nodes and leases are not affected."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from redis import Redis

from tests.world import PATIENCE_S, HubProcess, RedisServer, beat, borrow, eventually, give_back, publish

LABEL = "a:b"
J = "/v1/joblib"
MOST_BYTES, RESERVE = 20_000_000, 0.1
TIMES = 20
PAYLOAD = {"payload": {"text": "x" * 100_000}}


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis of 20 MB that drops nothing."""
    with tempfile.TemporaryDirectory(prefix="hub-test-") as folder, RedisServer(Path(folder)) as server:
        server.client().config_set("maxmemory", MOST_BYTES)
        yield server


def used_bytes(redis: Redis) -> int:
    """Return the memory that Redis counts towards its limit."""
    found = redis.info("memory")
    return int(found["used_memory"] - found["mem_not_counted_for_evict"])


async def token_of(admin: httpx.AsyncClient, user: str, *scopes: str) -> dict[str, str]:
    made = await admin.post("/admin/tokens", json={"user": user, "scopes": list(scopes), "rooms": ["lab"]})
    assert made.status_code == 201, made.text
    return {"authorization": f"Bearer {made.json()['token']}"}


async def flood(api: httpx.AsyncClient, path: str) -> tuple[httpx.Response, int]:
    """Submit until that is refused; returns the refusal, and how many were taken."""
    for taken in range(500):
        answer = await api.post(path, json=PAYLOAD)
        if answer.status_code != 202:
            return answer, taken
    raise AssertionError("nothing was ever refused")


@pytest.mark.parametrize("filled", [False, True], ids=["by the token alone", "to the brim by another program"])
async def test_a_token_that_floods_the_store_ends_no_node_and_no_lease(start_hub, redis, filled):
    heard = {"HUB_NODE_TIMEOUT_SECONDS": "600", "HUB_WORKER_TIMEOUT_SECONDS": "600"}  # however slow this machine is
    live: HubProcess = start_hub(HUB_TASK_RETENTION_SECONDS="1", **heard)
    path = f"{J}/rooms/lab/tasks/lab:modifiers:Rotate"
    async with live.client("admin") as admin, live.client("runner") as runner, live.client("node") as node:
        await publish(node, "n1", **{LABEL: [f"s{number}" for number in range(TIMES)]})
        leases = [(await borrow(runner, LABEL)).json() for _ in range(TIMES)]
        serves, submits = await token_of(admin, "ann", "worker"), await token_of(admin, "eve", "submit")
        job = await runner.put(f"{J}/rooms/lab/jobs", json={"category": "modifiers", "name": "Rotate"}, headers=serves)
        assert job.status_code == 201, job.text
        worker = job.json()["worker_id"]

        async with httpx.AsyncClient(base_url=live.url, headers=submits, timeout=PATIENCE_S) as eve:
            refused, taken = await flood(eve, path)
        assert refused.status_code == 503
        assert refused.json()["type"] == "/v1/problems/store-full"
        assert "maxmemory" in refused.json()["detail"]
        assert int(refused.headers["retry-after"]) >= 1
        kept_bytes = MOST_BYTES * (1 - RESERVE)
        assert 0.8 * kept_bytes <= used_bytes(redis) <= MOST_BYTES

        if filled:  # what no hub writes, no hub can refuse
            redis.config_set("maxmemory", used_bytes(redis) - 1_000_000)

        found: list[tuple[str, int]] = []
        for number, lease in enumerate(leases):
            beaten = await node.post("/node/heartbeat", json={"nodeId": "n1", "version": number})
            found.append(("beat", beaten.status_code))
            beaten = await runner.patch(f"{J}/workers/{worker}", headers=serves)
            found.append(("beat of the worker", beaten.status_code))
            about = {"labelKey": LABEL, "browserId": lease["browserId"], "leaseToken": lease["leaseToken"]}
            renewed = await runner.post("/session/renew", json={**about, "ttlSeconds": 60})
            found.append(("renewal", renewed.status_code))
            found.append(("return", (await give_back(runner, **renamed(about))).status_code))
        assert [each for each in found if each[1] != 200] == []
        assert used_bytes(redis) <= MOST_BYTES
        assert (await admin.get("/health/ready")).status_code == 200

        await work_off(runner, serves, worker, taken)
        redis.config_set("maxmemory", MOST_BYTES)

        async def is_taken_again() -> bool:  # as soon as what has ended is forgotten
            return (await runner.post(path, json=PAYLOAD, headers=submits)).status_code == 202

        await eventually(is_taken_again)
        await beat(node, "n1", 2 * TIMES)
        assert (await borrow(runner, LABEL)).status_code == 200


async def test_a_hub_starts_on_a_redis_whose_memory_is_full(start_hub, redis):
    first = start_hub()
    redis.config_set("maxmemory", 1)
    second = start_hub(HUB_RUNNER_SECRET="another", HUB_HISTORY_MAX_ENTRIES="500")
    for live in (first, second):
        async with live.client("admin") as admin:
            assert (await admin.get("/health/ready")).status_code == 200
    assert redis.hget("hub:store", "history_max") == "500"


def renamed(about: dict[str, str]) -> dict[str, str]:
    """Return the fields of a lease under the names of the arguments of `give_back`."""
    return {"label": about["labelKey"], "slot": about["browserId"], "leaseToken": about["leaseToken"]}


async def work_off(api: httpx.AsyncClient, serves: dict[str, str], worker: str, count: int) -> None:
    """A worker ends everything that waits, also while nothing can be added."""
    wanted, done = {"worker_id": worker, "limit": 64, "start": True}, 0
    while done < count:
        claimed = await api.post(f"{J}/tasks/claim", json=wanted, headers=serves)
        assert claimed.status_code == 200, claimed.text
        assert claimed.json()["tasks"], f"{count - done} of {count} tasks are not claimed"
        for task in claimed.json()["tasks"]:
            moved = await api.patch(f"{J}/tasks/{task['id']}", json={"status": "completed"}, headers=serves)
            assert moved.status_code == 200, moved.text
            done += 1

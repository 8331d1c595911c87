"""Count the Redis commands that realms and spill-over add to calls that need neither."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from redis import Redis

from hub.api.app import create_app
from hub.store import rounds
from tests.realms.world import write_realms
from tests.world import RedisServer, settings_for

TIMES = 20
RENEWED = ("browserId", "leaseToken")


def commands(redis: Redis) -> Counter[str]:
    """Return how often the server has run each command, calls from scripts included."""
    said: dict[str, Any] = redis.info("commandstats")
    return Counter({name.removeprefix("cmdstat_"): each["calls"] for name, each in said.items()})


async def cost(api: httpx.AsyncClient, redis: Redis, prefix: str = "") -> dict[str, Counter[str]]:
    """Call each operation `TIMES` times; return the commands that Redis got for it."""
    slots = [{"labelKey": "gpu:a", "slotId": f"s{number}"} for number in range(TIMES)]
    answer = await api.post(f"{prefix}/node/register", json={"nodeId": "n1", "slots": slots})
    assert answer.status_code == 200, answer.text
    found: dict[str, Counter[str]] = {}
    leases: list[dict[str, Any]] = []

    async def borrow(_: int) -> httpx.Response:
        answer = await api.post(f"{prefix}/session/borrow", json={"labelKey": "gpu:a", "maxWaitSeconds": 20})
        leases.append(answer.json())
        return answer

    def held(number: int) -> dict[str, Any]:
        return {name: leases[number][name] for name in RENEWED}

    def give_back(number: int) -> Any:
        return api.post(f"{prefix}/session/return", json={"labelKey": "gpu:a", **held(number)})

    async def counted(operation: Callable[[int], Any], undo: Callable[[int], Any] | None = None) -> Counter[str]:
        """Count the commands of an operation in a time in which the hub did not tick."""
        while True:
            ticked = redis.hget("hub:store", "tick_ms")
            before = commands(redis)
            for number in range(TIMES):
                answer = await operation(number)
                assert answer.status_code == 200, answer.text
            sent = commands(redis) - before - Counter({"info": 1})
            if redis.hget("hub:store", "tick_ms") == ticked:
                return sent
            for number in range(TIMES) if undo else ():
                assert (await undo(number)).status_code == 200
            if undo is give_back:
                leases.clear()

    async def borrow_again(number: int) -> httpx.Response:
        answer = await borrow(number)
        leases[number] = leases.pop()
        return answer

    found["borrow"] = await counted(borrow, give_back)
    found["renew"] = await counted(lambda n: api.post(f"{prefix}/session/renew", json=held(n)))
    found["verify"] = await counted(
        lambda n: api.get(f"{prefix}/leases/{leases[n]['browserId']}/verify", params={"token": leases[n]["leaseToken"]})
    )
    found["heartbeat"] = await counted(lambda _: api.post(f"{prefix}/node/heartbeat", json={"nodeId": "n1"}))
    found["return"] = await counted(give_back, borrow_again)
    found["jobs"] = await counted(lambda _: api.get(f"{prefix}/v1/joblib/rooms/lab/jobs"))
    return found


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis of its own, which no hub of an earlier test that is just ending can reach."""
    with RedisServer(tmp_path / "alone") as server:
        yield server


@pytest.fixture(autouse=True)
def no_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no background work begin a round: its commands would be counted as those of a call."""
    endless = SimpleNamespace(sleep=lambda _: asyncio.get_running_loop().create_future())
    monkeypatch.setattr(rounds, "asyncio", endless)


@pytest.fixture
async def without(alone: RedisServer) -> dict[str, Counter[str]]:
    """Return the commands that a hub without a file of realms sends."""
    edge = create_app(settings_for(alone.url, allowed_hosts=("hub",), borrow_queue_timeout_s=20), sweep=False)
    with alone.client() as redis:
        async with (
            edge.app.router.lifespan_context(edge.app),
            httpx.AsyncClient(transport=httpx.ASGITransport(app=edge), base_url="http://hub") as api,
        ):
            found = await cost(api, redis)
        redis.flushall()
    return found


async def test_naming_a_realm_costs_no_additional_redis_command(without, make_realms, alone, tmp_path):
    """A call by its path sends what it sends without realms, borrow and renewal of a realm that may spill over too."""
    spilling = {"spill_to": ["default"], "spill_after_s": 5}
    file = write_realms(tmp_path / "one.toml", eu=(alone.url, spilling))
    async with make_realms(realms_file=file, borrow_queue_timeout_s=20) as api:
        with alone.client() as redis:
            assert await cost(api, redis, "/realms/eu") == without
    print({name: {word: times / TIMES for word, times in sent.items()} for name, sent in without.items()})
    assert all(sum(sent.values()) >= TIMES for sent in without.values()), without

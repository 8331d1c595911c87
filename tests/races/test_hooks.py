"""Hubs that deliver messages to hooks, and die in the middle of it; stores that restart and that are emptied."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator

import httpx
import pytest
from redis import Redis

from tests.hooks.receiver import Received, Receiver
from tests.world import PATIENCE_S, HubProcess, RedisServer, borrow, eventually, give_back, publish

POOL = "gpu:a100"
QUICK = "import hub.hooks.delivery as d; d.TURN_MS = 6000"  # a turn whose hub is gone ends sooner
ALLOWED = {"HUB_HOOK_HOSTS": "127.0.0.1", "HUB_NODE_TIMEOUT": "600"}
pytestmark = [pytest.mark.race, pytest.mark.timeout(600)]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as found:
        yield found


async def listen(hub: HubProcess, receiver: Receiver, path: str = "") -> str:
    async with hub.client() as api:
        body = {"url": receiver.url + path, "on": ["lease.granted", "lease.ended"]}
        answer = await api.post("/admin/hooks", json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])


async def lend(hub: HubProcess, slots: list[str], times: int) -> None:
    """Lend and return each slot so often."""
    async with hub.client("node") as node:
        await publish(node, "n1", **{POOL: slots})
    async with hub.client("runner") as api:
        for _ in range(times):
            leases = [(await borrow(api, POOL)).json() for _ in slots]
            for lease in leases:
                await give_back(api, POOL, lease["browserId"], leaseToken=lease["leaseToken"])


def delivered(hub: HubProcess) -> float:
    text = httpx.get(f"{hub.url}/metrics", timeout=PATIENCE_S).text
    found = re.search(r'^hub_hook_messages_total\{outcome="delivered"\} (\S+)', text, re.MULTILINE)
    return float(found[1]) if found else 0.0


async def test_no_message_is_lost_when_the_hub_that_delivers_is_killed(
    start_hub: Callable[..., HubProcess], receiver: Receiver
) -> None:
    first = start_hub(before=QUICK, **ALLOWED)
    slots = [f"s{number}" for number in range(4)]
    killed: list[str] = []

    def answer(got: Received) -> int:
        time.sleep(0.005)
        if len(receiver.heard) >= 30 and not killed:
            killed.append(got.id)
            first.process.kill()  # before it hears that this message was taken
        return 200

    receiver.answer = answer
    hook = await listen(first, receiver)
    async with first.client() as api:
        await api.post(f"/admin/hooks/{hook}/pause")
        await lend(first, slots, 15)
        await api.post(f"/admin/hooks/{hook}/resume")
    await eventually(lambda: killed)
    start_hub(before=QUICK, **ALLOWED)
    expected = {slot: ["lease.granted", "lease.ended"] * 15 for slot in slots}
    await eventually(lambda: receiver.objects() == expected or len({each.id for each in receiver.heard}) > 120)
    assert receiver.objects() == expected  # none is lost, and each slot's are in order
    bodies = {each.id: each.body for each in receiver.heard}
    assert all(bodies[each.id] == each.body for each in receiver.heard)
    assert Counter(each.id for each in receiver.heard)[killed[0]] == 2


async def test_no_message_is_lost_when_the_hub_that_reads_the_history_is_killed(
    start_hub: Callable[..., HubProcess], receiver: Receiver
) -> None:
    first = start_hub(before=QUICK, **ALLOWED)  # the leader
    second = start_hub(before=QUICK, **ALLOWED)
    slots = [f"s{number}" for number in range(4)]
    await listen(first, receiver)
    lending = asyncio.create_task(lend(second, slots, 15))
    await eventually(lambda: len(receiver.heard) >= 30)
    first.kill()
    await lending
    expected = {slot: ["lease.granted", "lease.ended"] * 15 for slot in slots}
    await eventually(lambda: receiver.objects() == expected or len({each.id for each in receiver.heard}) > 120)
    assert receiver.objects() == expected


async def test_two_hubs_share_the_work_and_deliver_nothing_twice(
    start_hub: Callable[..., HubProcess], receiver: Receiver, redis: Redis
) -> None:
    hubs = [start_hub(**ALLOWED), start_hub(**ALLOWED)]
    for number in range(6):
        await listen(hubs[0], receiver, f"/{number}")
    receiver.answer = lambda _: time.sleep(0.02) or 200  # type: ignore[func-returns-value]
    await lend(hubs[0], ["s1", "s2", "s3"], 10)
    await eventually(lambda: len(receiver.heard) >= 6 * 60)
    await eventually(lambda: all(redis.xlen(key) == 0 for key in redis.keys("hub:hook_queue:*")))
    assert Counter((each.path, each.id) for each in receiver.heard).most_common(1)[0][1] == 1
    await eventually(lambda: sum(map(delivered, hubs)) == 360)
    assert all(delivered(hub) > 0 for hub in hubs)


async def test_hooks_outlive_a_restart_of_the_store(own_redis: RedisServer, receiver: Receiver) -> None:
    with HubProcess({"HUB_REDIS_URL": own_redis.url, **ALLOWED}) as hub:
        await listen(hub, receiver)
        await lend(hub, ["s1"], 1)
        await eventually(lambda: receiver.objects() == {"s1": ["lease.granted", "lease.ended"]})
        own_redis.kill()
        own_redis.start()

        async def lent() -> bool:
            async with hub.client("node") as node, hub.client("runner") as api:
                body = {"nodeId": "n1", "slots": [{"labelKey": POOL, "slotId": "s1"}]}
                if (await node.post("/node/register", json=body)).status_code != 200:
                    return False
                return (await borrow(api, POOL, maxWaitSeconds=2)).status_code == 200

        await eventually(lent)
        await eventually(lambda: receiver.objects() == {"s1": ["lease.granted", "lease.ended", "lease.granted"]})


async def test_an_emptied_store_has_no_hooks_and_takes_new_ones(
    start_hub: Callable[..., HubProcess], receiver: Receiver, redis: Redis
) -> None:
    hub = start_hub(**ALLOWED)
    await listen(hub, receiver)
    await lend(hub, ["s1"], 1)
    await eventually(lambda: len(receiver.heard) == 2)
    redis.flushall()
    async with hub.client() as api:

        async def none() -> bool:
            answer = await api.get("/admin/hooks")
            return answer.status_code == 200 and answer.json()["total"] == 0

        await eventually(none)
    await listen(hub, receiver)

    async def told() -> bool:
        async with hub.client("runner") as runner:
            answer = await borrow(runner, POOL)
            if answer.status_code == 200:
                await give_back(runner, POOL, "s1", leaseToken=answer.json()["leaseToken"])
        await asyncio.sleep(0.1)
        return len(receiver.heard) > 2

    async with hub.client("node") as node:
        await publish(node, "n1", **{POOL: ["s1"]})
    await eventually(told)
    assert "round of hook delivery failed" not in hub.log()

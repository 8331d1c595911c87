"""Two or three hubs on one Redis, at the same moment."""

from __future__ import annotations

import asyncio
import random
import re
import signal
import socket
import time
from collections.abc import Callable
from contextlib import AsyncExitStack

import httpx
import pytest
from redis import Redis

from tests.world import (
    PATIENCE_S,
    SLACK_S,
    HubProcess,
    age_node,
    borrow,
    eventually,
    listed,
    publish,
    wait_until,
)

POOL = "gpu:a100"
pytestmark = [pytest.mark.race, pytest.mark.timeout(600)]


def sweeps(hub: HubProcess) -> float:
    """Return how many node sweeps a hub has made."""
    text = httpx.get(f"{hub.url}/metrics", timeout=PATIENCE_S).text
    found = re.search(r'^hub_sweeps_total\{service="node"\} (\S+)', text, re.MULTILINE)
    return float(found[1]) if found else 0.0


async def test_of_two_concurrent_returns_one_ends_the_lease(start_hub: Callable[..., HubProcess], redis: Redis) -> None:
    hubs = [start_hub(HUB_NODE_TIMEOUT="600"), start_hub(HUB_NODE_TIMEOUT="600")]
    async with hubs[0].client("node") as node, hubs[0].client("runner") as one, hubs[1].client("runner") as other:
        await publish(node, "n1", **{POOL: ["s1", "s2"]})
        for turn in range(200):
            lease = (await borrow(one, POOL)).json()
            back = {"labelKey": POOL, "browserId": lease["browserId"]}
            if turn % 2:
                back["leaseToken"] = lease["leaseToken"]
            answers = await asyncio.gather(*(api.post("/session/return", json=back) for api in (one, other)))
            assert [answer.status_code for answer in answers] == [200, 200]
            assert sorted("note" in answer.json() for answer in answers) == [False, True]
            assert sorted(listed(redis, f"available:{POOL}")) == ["s1", "s2"]
            assert redis.exists(f"hub:asked:{POOL}") == 0


async def test_two_concurrent_returns_give_the_slot_to_one_waiter_who_keeps_it(
    start_hub: Callable[..., HubProcess], redis: Redis
) -> None:
    """The hub tells the returns apart by token or run. A return with neither that comes after the waiter's hub knows
    of its lease may mean that lease.
    """
    hubs = [start_hub(HUB_NODE_TIMEOUT="600"), start_hub(HUB_NODE_TIMEOUT="600")]
    lost = 0
    async with hubs[0].client("node") as node, hubs[0].client("runner") as one, hubs[1].client("runner") as other:
        await publish(node, "n1", **{POOL: ["s1"]})
        lease = (await borrow(one, POOL, run="r")).json()
        for turn in range(200):
            waiter = asyncio.create_task(borrow(random.choice((one, other)), POOL, run=f"r{turn}"))
            await eventually(lambda: redis.zcard(f"hub:line:{POOL}"))
            back = {"labelKey": POOL, "browserId": "s1"}
            named = ("leaseToken", "runId", "")[turn % 3]
            back |= {named: lease[named]} if named else {}
            answers = await asyncio.gather(*(api.post("/session/return", json=back) for api in (one, other)))
            notes = [answer.json().get("note") for answer in answers]
            before, lease = lease, (await waiter).json()
            assert int(lease["leaseToken"]) > int(before["leaseToken"])
            if not named and notes == [None, None]:
                lost += 1
                assert (listed(redis, f"available:{POOL}"), redis.keys("hub:asked:*")) == (["s1"], [])
                lease = (await borrow(one, POOL, run=f"r{turn}")).json()
            assert named == "" or sorted(notes, key=str) == [None, "already returned"]
            assert redis.hget("session:s1", "leaseToken") == lease["leaseToken"]
            assert (redis.llen(f"available:{POOL}"), listed(redis, f"inuse:{POOL}")) == (0, ["s1"])
            assert (redis.zcard(f"hub:asked:{POOL}"), redis.keys("hub:handed:*")) == (1, [])
    print(f"of 67 pairs of returns without token or run {lost} met the waiter's lease")


async def test_a_heartbeat_and_an_expiry_of_the_same_node_never_both_succeed(
    start_hub: Callable[..., HubProcess], redis: Redis
) -> None:
    """A thousand nodes that are stale right now: one hub sweeps while the other takes their beats."""
    quiet = {
        "HUB_NODE_TIMEOUT": "60",
        "HUB_NODE_SWEEP_INTERVAL_SECONDS": "3600",
        "HUB_SWEEPER_BRAKE_PERCENT": "100",
    }
    sweeper, listener = start_hub(**quiet), start_hub(**quiet)
    told = {True: 0, False: 0}
    async with (
        sweeper.client("admin", timeout=PATIENCE_S) as admin,
        listener.client("node", timeout=PATIENCE_S) as node,
    ):

        async def beat(names: list[str]) -> dict[str, bool]:
            await asyncio.sleep(random.uniform(0, 0.06))
            answer = await node.post("/node/heartbeats", json={"beats": [{"nodeId": name} for name in names]})
            return {each["nodeId"]: each["known"] for each in answer.json()["beats"]}

        for turn in range(60):
            if turn >= 10 and min(told.values()) > 20:
                break  # on a busy machine one side may need more turns to win now and then
            names = [f"n{turn}-{number}" for number in range(100)]
            await asyncio.gather(*(publish(node, name, **{POOL: [f"{name}-s"]}) for name in names))
            for name in names:
                age_node(redis, name, 61)
            random.shuffle(names)
            batches = [names[start : start + 5] for start in range(0, 100, 5)]
            swept, *beaten = await asyncio.gather(admin.post("/admin/sweep"), *(beat(batch) for batch in batches))
            known = {name: is_known for answers in beaten for name, is_known in answers.items()}
            assert swept.json()["nodes"]["errors"] == 0
            await admin.post("/admin/sweep")  # by now every node has beaten or is gone
            registered, slots = redis.smembers("nodes"), set(listed(redis, f"available:{POOL}"))
            assert {name for name in names if name in registered} == {name for name in names if known[name]}
            assert {name for name in names if f"{name}-s" in slots} == {name for name in names if known[name]}
            for is_known in known.values():
                told[is_known] += 1
    assert sum(told.values()) >= 1000
    assert min(told.values()) > 20, f"no race to speak of: {told}"


async def test_one_hub_sweeps_and_another_takes_over_when_it_is_killed(start_hub: Callable[..., HubProcess]) -> None:
    hubs = [start_hub(HUB_NODE_SWEEP_INTERVAL_SECONDS="0.2") for _ in range(3)]

    def sweeping(seconds: float) -> HubProcess:
        """Return the one hub that sweeps for so long; look again when another took over from a stalled one."""
        for _ in range(5):
            before = [sweeps(hub) for hub in hubs]
            time.sleep(seconds)
            found = [hub for hub, count in zip(hubs, before, strict=True) if sweeps(hub) > count]
            if len(found) == 1:
                return found[0]
        raise AssertionError(f"{len(found)} hubs sweep")

    first = sweeping(1.5)
    first.kill()
    killed = time.monotonic()
    hubs.remove(first)
    before = [sweeps(hub) for hub in hubs]
    wait_until(lambda: [sweeps(hub) for hub in hubs] != before, 3.0 + SLACK_S)
    print(f"taken over after {time.monotonic() - killed:.1f} s")
    second = sweeping(1.0)

    # One that is asked to stop hands over by itself.
    second.signal(signal.SIGTERM)
    hubs.remove(second)
    before = [sweeps(hub) for hub in hubs]
    second.process.wait(PATIENCE_S)
    wait_until(lambda: [sweeps(hub) for hub in hubs] != before, 1.5 + SLACK_S)


async def test_a_hub_that_stops_refuses_borrows_and_still_takes_returns(
    start_hub: Callable[..., HubProcess], redis: Redis
) -> None:
    hub = start_hub(linger_s=PATIENCE_S)
    async with hub.client("node") as node, hub.client("runner") as runner:
        await publish(node, "n1", **{POOL: ["s1", "s2"]})
        lease = (await borrow(runner, POOL)).json()
        hub.signal(signal.SIGTERM)

        async def stopping() -> bool:
            return (await runner.get("/health/ready")).status_code == 503

        await eventually(stopping)
        refused = await borrow(runner, POOL)
        assert (refused.status_code, refused.json()["code"], refused.headers["retry-after"]) == (503, "stopping", "30")
        back = {"labelKey": POOL, "browserId": lease["browserId"], "leaseToken": lease["leaseToken"]}
        returned = await runner.post("/session/return", json=back)
        assert (returned.status_code, returned.json()) == (200, {"returned": "s1"})
    hub.signal(signal.SIGTERM)
    assert hub.process.wait(PATIENCE_S) == 0
    assert listed(redis, f"available:{POOL}") == ["s2", "s1"]


async def test_a_caller_who_hangs_up_in_the_middle_of_a_request_causes_no_error(live_hub: HubProcess) -> None:
    head = (
        f"POST /session/renew HTTP/1.1\r\nhost: hub\r\nx-hub-secret: {live_hub.runner_secret}\r\n"
        "content-length: 50\r\n\r\n{"
    )
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", live_hub.port), timeout=PATIENCE_S) as caller:
            caller.sendall(head.encode())
    async with AsyncExitStack() as stack:
        runner = await stack.enter_async_context(live_hub.client("runner"))

        async def answered() -> bool:
            return (await runner.get("/sessions")).status_code == 200

        await eventually(answered)
        assert "hub_unhandled_errors_total 0.0" in (await runner.get("/metrics")).text
    assert " ERROR " not in live_hub.log()

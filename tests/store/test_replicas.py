"""HUB_GRANT_REPLICAS: a lease that its borrower was told of survives the death of the primary."""

from __future__ import annotations

import asyncio
import signal

import pytest

from hub.errors import StartRefused
from hub.store.connection import open_store
from tests.replicas import Server
from tests.world import borrow, eventually, give_back, publish, settings_for

QUICK = ("save ''", "repl-diskless-sync yes", "repl-diskless-sync-delay 0", "repl-timeout 600")
LABEL = "gpu:a100"


@pytest.fixture
def pair(tmp_path):
    """A primary, and a replica that has all it has."""
    first = Server(tmp_path, *QUICK)
    second = Server(tmp_path, *QUICK, f"replicaof 127.0.0.1 {first.port}")
    yield first, second
    for each in (first, second):
        each.kill()


@pytest.fixture
async def api(pair, start_hub):
    first, _ = pair
    hub = await asyncio.to_thread(
        start_hub, HUB_REDIS_URL=f"redis://127.0.0.1:{first.port}", HUB_GRANT_REPLICAS="1", HUB_NODE_TIMEOUT="600"
    )

    async def followed():
        with first.client() as client:
            return client.info("replication").get("slave0", {}).get("state") == "online"

    await eventually(followed)
    async with hub.client("admin") as admin, hub.client("runner") as runner, hub.client("node") as node:
        await publish(node, "n1", **{LABEL: ["s1"]})
        yield admin, runner


async def free(admin) -> int:
    return int((await admin.get(f"/pools/{LABEL}")).json()["available"])


async def one_waits_for_replicas(first):
    """Wait until a client of the primary waits for its replicas to confirm."""

    async def one():
        with first.client() as client:
            return any(each["cmd"] == "wait" and "b" in each["flags"] for each in client.client_list())

    await eventually(one)


async def test_a_borrow_is_answered_after_a_replica_has_its_lease(api, pair):
    _, runner = api
    first, second = pair
    second.signal(signal.SIGSTOP)
    asked = asyncio.create_task(borrow(runner, LABEL))
    await one_waits_for_replicas(first)
    assert not asked.done()
    second.signal(signal.SIGCONT)
    answer = await asked
    if answer.status_code == 503:  # a machine so slow that the replica came too late
        answer = await borrow(runner, LABEL)
    assert answer.status_code == 200
    first.kill()
    with second.client() as client:
        client.replicaof("NO", "ONE")
        held = answer.json()
        assert client.hget(f"session:{held['browserId']}", "leaseToken") == held["leaseToken"]


async def test_a_lease_that_no_replica_confirms_is_refused_and_undone(api, pair):
    admin, runner = api
    _, second = pair
    second.signal(signal.SIGSTOP)
    refused = await borrow(runner, LABEL)
    assert (refused.status_code, refused.json()["code"]) == (503, "not-replicated")
    assert refused.json()["detail"] == "0 of 1 replicas confirmed the lease within 1 s; it was taken back"
    assert float(refused.headers["retry-after"]) > 0

    async def back():
        return await free(admin) == 1

    await eventually(back)
    second.signal(signal.SIGCONT)

    async def lent():
        return (await borrow(runner, LABEL)).status_code == 200

    await eventually(lent)


async def test_a_queued_borrow_also_waits_for_the_replica(api, pair):
    admin, runner = api
    _, second = pair
    held = (await borrow(runner, LABEL)).json()["browserId"]
    waiting = asyncio.create_task(borrow(runner, LABEL, maxWaitSeconds=60))

    async def queued():
        return (await admin.get(f"/autoscale/{LABEL}")).json()["waiting"] == 1

    await eventually(queued)
    second.signal(signal.SIGSTOP)
    assert (await give_back(runner, LABEL, held)).status_code == 200
    refused = await waiting
    assert (refused.status_code, refused.json()["code"]) == (503, "not-replicated")


async def test_many_concurrent_borrows_share_a_few_wait_commands_to_redis(api, pair):
    _, runner = api
    first, _ = pair
    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(borrow(runner, LABEL, maxWaitSeconds=0)) for _ in range(50)]
    assert sum(each.result().status_code == 200 for each in asked) == 1
    with first.client() as client:
        assert client.info("commandstats")["cmdstat_wait"]["calls"] == 1  # none for calls that got no slot


async def test_a_hub_that_requires_replicas_does_not_start_without_them(tmp_path):
    with pytest.raises(StartRefused, match="HUB_GRANT_REPLICAS needs a Redis with replicas; name it in HUB_REDIS_URL"):
        async with open_store(settings_for(None, grant_replicas=1, data_dir=tmp_path)):
            pass

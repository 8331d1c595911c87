"""A hub whose clock is wrong by hours: everything that others see of a time comes from Redis."""

from __future__ import annotations

import time
from datetime import datetime

import pytest

from tests.clocks import OFF
from tests.world import SLACK_S, HubProcess, RedisServer

LABEL = "gpu:a100"
OFF_S = 3 * 3600.0


@pytest.fixture(scope="module", params=[OFF_S, -OFF_S], ids=["fast", "slow"])
def wrong(request, tmp_path_factory):
    """A hub whose time of day is three hours off; its log shows that it is. Each test has a node of its own in it."""
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        environment = {"HUB_REDIS_URL": server.url, "HUB_NODE_TIMEOUT": "600", "TEST_CLOCK_OFF_S": str(request.param)}
        with HubProcess(environment, before=OFF, anew=True) as hub:
            assert abs(of(hub.log().split()[0]) - time.time()) > OFF_S / 2
            yield hub


def of(text):
    return datetime.fromisoformat(text).timestamp()


async def test_the_end_of_a_lease_is_told_by_the_clock_of_redis(wrong):
    async with wrong.client("node") as node, wrong.client("runner") as runner:
        body = {"nodeId": "n1", "pools": {LABEL: 1}}
        assert (await node.post("/node/register", json=body)).status_code == 200
        before = time.time()
        lease = (await runner.post("/session/borrow", json={"labelKey": LABEL, "ttlSeconds": 600})).json()
        held = {"browserId": lease["browserId"], "leaseToken": lease["leaseToken"]}
        renewed = (await runner.post("/session/renew", json={**held, "ttlSeconds": 600})).json()
        after = time.time()
    for said in (lease, renewed):
        assert before - SLACK_S < of(said["expiresAtUtc"]) - 600 < after + SLACK_S
    assert of(lease["expiresAtUtc"]) <= of(renewed["expiresAtUtc"]) + SLACK_S


async def test_the_times_of_the_audit_log_are_told_by_the_clock_of_redis(wrong):
    began = datetime.fromtimestamp(time.time()).astimezone()
    async with wrong.client("node") as node, wrong.client("admin") as admin:
        assert (await node.post("/node/register", json={"nodeId": "n2"})).status_code == 200
        assert (await node.post("/node/register", content=b"{")).status_code == 400
        assert (await admin.post("/admin/nodes/n2/drain")).status_code == 200
        entries = (await admin.get("/audit", params={"sinceUtc": began.isoformat()})).json()
    actions = [entry["action"] for entry in entries]
    assert actions == ["node.drain", "register.denied", "register.success"]
    assert all(began.timestamp() <= of(entry["timestampUtc"]) <= time.time() for entry in entries)


async def test_the_id_of_an_unnamed_run_begins_with_the_time_of_redis(wrong):
    async with wrong.client("node") as node, wrong.client("runner") as runner:
        body = {"nodeId": "n3", "pools": {LABEL: 1}}
        assert (await node.post("/node/register", json=body)).status_code == 200
        before = time.time()
        run = (await runner.post("/session/borrow", json={"labelKey": LABEL})).headers["correlation-id"]
        begun = datetime.strptime(run.partition("-")[0] + "000+0000", "%Y%m%d%H%M%S%f%z").timestamp()
        assert before - SLACK_S < begun < time.time() + SLACK_S

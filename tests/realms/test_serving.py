"""Hubs in processes of their own: stores that are away, a file that is read again, heartbeats by the short way."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import httpx
import pytest

from hub.client import HubClient, NodeAgent
from tests.realms.world import EU, nodes_of, offer, write_realms
from tests.world import PATIENCE_S, HubProcess, RedisServer, eventually


@pytest.fixture
def far(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis server that a test may kill."""
    with RedisServer(tmp_path / "far") as server:
        yield server


@pytest.fixture
def file(tmp_path: Path, far: RedisServer, second: RedisServer) -> Path:
    """`eu` on the server that may be killed, `us` on another one."""
    return write_realms(tmp_path / "realms.toml", eu=(far.url, EU), us=(second.url, {}))


@pytest.fixture
def hub(start_hub: Callable[..., HubProcess], file: Path) -> HubProcess:
    """A hub process that serves the default realm, `eu` and `us`."""
    return start_hub(HUB_REALMS_FILE=str(file), REDIS_ASYNC_TIMEOUT_MS="1000", HUB_NODE_TIMEOUT="600")


@pytest.fixture
async def api(hub: HubProcess) -> AsyncIterator[httpx.AsyncClient]:
    """Its client; all secrets are one."""
    async with httpx.AsyncClient(base_url=hub.url, timeout=60) as client:
        client.headers["x-hub-secret"] = hub.admin_secret
        yield client


async def state(api: httpx.AsyncClient, realm: str) -> str:
    """Return how the hub sees a realm."""
    answer = await api.get("/realms")
    assert answer.status_code == 200, answer.text
    return next((str(each["state"]) for each in answer.json()["realms"] if each["name"] == realm), "none")


def as_role(hub: HubProcess, role: str) -> dict[str, str]:
    return {"x-hub-secret": {"node": hub.node_secret, "runner": hub.runner_secret}[role]}


async def test_the_sdk_uses_a_realm_by_its_url(hub, api):
    await eventually(lambda: is_state(api, "eu", "open"))
    url = f"{hub.url}/realms/eu"
    async with (
        NodeAgent("rack", url=url, secret=hub.node_secret, pools={"gpu:a100": 1}) as agent,
        HubClient(url, secret=hub.runner_secret) as client,
        client.borrow("gpu:a100", ttl=60) as slot,
    ):
        assert slot.id.startswith("rack")
        assert await nodes_of(api, "eu") == {agent.node_id}
        assert (await nodes_of(api, "default"), await nodes_of(api, "us")) == (set(), set())


async def is_state(api: httpx.AsyncClient, realm: str, wanted: str) -> bool:
    return await state(api, realm) == wanted


async def test_a_heartbeat_on_the_fast_path_reaches_its_realm(hub, api):
    await eventually(lambda: is_state(api, "us", "open"))
    await eventually(lambda: is_state(api, "eu", "open"))
    node = as_role(hub, "node")
    for name, realm in (("eu-1", "eu"), ("n1", "us"), ("n1", "default")):
        await offer(api, name, "gpu:a", f"{name}-{realm}", headers={**node, "x-hub-realm": realm})

    async def known(node_id: str, path: str = "", **headers: str) -> bool:
        body = {"nodeId": node_id, "version": 0}
        answer = await api.post(f"{path}/node/heartbeat", json=body, headers={**node, **headers})
        assert answer.status_code == 200, answer.text
        return bool(answer.json()["known"])

    assert await known("eu-1")  # by its rule
    assert await known("eu-1", "/realms/eu")
    assert await known("n1")
    assert await known("n1", "/realms/us")
    assert await known("n1", **{"x-hub-realm": "us"})
    assert not await known("eu-1", "/realms/us")
    assert not await known("eu-1", **{"x-hub-realm": "default"})
    assert not await known("n1", "/realms/eu")
    assert (await api.post("/realms/xx/node/heartbeat", json={"nodeId": "n1"}, headers=node)).status_code == 404
    counted = (await api.get("/metrics")).text
    assert 'hub_heartbeats_total{known="true",realm="us"} 2.0' in counted
    assert 'hub_heartbeats_total{known="true",realm="eu"} 2.0' in counted
    assert 'hub_heartbeats_total{known="true"} 1.0' in counted


@pytest.mark.parametrize("fault", ["killed", "frozen"])
async def test_a_realm_whose_store_dies_affects_no_other(hub, api, far, fault):
    await eventually(lambda: is_state(api, "eu", "open"))
    await eventually(lambda: is_state(api, "us", "open"))
    runner, node = as_role(hub, "runner"), as_role(hub, "node")
    for realm in ("us", "default"):
        await offer(api, f"n-{realm}", "gpu:a", f"s-{realm}", headers={**node, "x-hub-realm": realm})
    await offer(api, "eu-1", "gpu:a:eu", "s-eu", headers=node)
    lease = (await api.post("/session/borrow", json={"labelKey": "gpu:a:eu"}, headers=runner)).json()
    far.kill() if fault == "killed" else far.freeze()
    await eventually(lambda: is_state(api, "eu", "away"))
    refused = await api.post("/session/borrow", json={"labelKey": "gpu:a:eu"}, headers=runner)
    assert (refused.status_code, refused.json()["code"]) == (503, "store-unavailable")
    held = {"browserId": "s-eu", "leaseToken": lease["leaseToken"]}
    assert (await api.post("/session/renew", json=held, headers=runner)).status_code == 503  # not that it is over
    for realm in ("us", "default"):
        for _ in range(20):
            headers = {**runner, "x-hub-realm": realm}
            answer = await api.post("/session/borrow", json={"labelKey": "gpu:a"}, headers=headers)
            assert answer.status_code == 200, answer.text
            token = answer.json()["leaseToken"]
            body = {"browserId": f"s-{realm}", "leaseToken": token}
            assert (await api.post("/session/renew", json=body, headers=runner)).status_code == 200
            back = await api.post("/session/return", json={"labelKey": "gpu:a", **body}, headers=headers)
            assert back.status_code == 200
    assert (await api.get("/health/ready")).json()["realms"] == {"default": "ready", "eu": "away", "us": "ready"}
    assert (await api.get("/realms/eu/health/ready")).status_code == 503
    shown = (await api.get("/metrics")).text
    assert 'hub_store_up{realm="eu"} 0.0' in shown
    assert 'hub_nodes_registered{realm="us"} 1.0' in shown
    assert "\nhub_nodes_registered 1.0" in shown
    assert (await api.get("/", headers={"accept": "text/html"})).status_code == 200
    assert (await api.get("/realms/eu/", headers={"accept": "text/html"})).status_code == 200
    far.start() if fault == "killed" else far.thaw()
    await eventually(lambda: is_state(api, "eu", "open"))


async def test_a_realm_that_is_down_at_the_start_is_served_when_its_store_is_up(start_hub, file, far):
    far.kill()
    hub = start_hub(HUB_REALMS_FILE=str(file))
    async with hub.client() as api:
        await eventually(lambda: is_state(api, "us", "open"))
        assert await state(api, "eu") == "opening"
        answer = await api.get("/realms/eu/nodes")
        assert (answer.status_code, answer.json()["code"]) == (503, "store-unavailable")
        assert "retry-after" in answer.headers

        async def is_said():
            (eu,) = (each for each in (await api.get("/realms")).json()["realms"] if each["name"] == "eu")
            assert eu["asOf"] is None
            return "does not answer" in eu["error"]  # once the first attempt has failed

        await eventually(is_said)
        far.start()
        await eventually(lambda: is_state(api, "eu", "open"))
        assert (await api.get("/realms/eu/nodes")).status_code == 200


async def test_the_realms_file_is_read_again_on_sighup(hub, api, file, far, second):
    await eventually(lambda: is_state(api, "eu", "open"))
    await offer(api, "asia-1", "gpu:a", "s1", headers=as_role(hub, "node"))
    file.write_text("[[realms]\n")
    hub.signal(signal.SIGHUP)
    await eventually(lambda: logged(hub, "realms file rejected"))
    assert await state(api, "eu") == "open"
    write_realms(file, eu=(far.url, {"nodes": ["asia-*"]}), asia=(second.url, {}))
    hub.signal(signal.SIGHUP)
    await eventually(lambda: is_state(api, "asia", "open"))
    assert [await state(api, name) for name in ("default", "eu", "us")] == ["open", "open", "none"]
    assert (await api.get("/realms/us/nodes")).status_code == 404
    await offer(api, "asia-1", "gpu:a", "s2", headers=as_role(hub, "node"))
    assert await nodes_of(api, "eu") == {"asia-1"}
    await eventually(lambda: is_gone(api, 'realm="us"'))


async def test_a_hub_stops_although_the_store_of_a_realm_hangs(hub, api, far):
    await eventually(lambda: is_state(api, "eu", "open"))
    far.freeze()
    hub.signal(signal.SIGTERM)
    assert hub.process.wait(PATIENCE_S) == 0
    far.thaw()


async def logged(hub: HubProcess, text: str) -> bool:
    return text in hub.log()


async def is_gone(api: httpx.AsyncClient, text: str) -> bool:
    return text not in (await api.get("/metrics")).text


async def test_a_hub_may_serve_only_some_realms(start_hub, file):
    hub = start_hub(HUB_REALMS_FILE=str(file), HUB_REALMS="us", HUB_REDIS_URL="redis://127.0.0.1:1")
    async with hub.client() as api:
        await eventually(lambda: is_state(api, "us", "open"))
        assert [each["name"] for each in (await api.get("/realms")).json()["realms"]] == ["us"]
        refused = await api.get("/nodes")
        assert (refused.status_code, refused.json()["code"]) == (404, "unknown-realm")
        assert refused.json()["detail"] == "This call names no realm, and no rule fits it; this hub serves us."
        assert (await api.get("/nodes/eu-1")).json()["detail"] == "This hub serves no realm 'eu'; it serves us."
        assert (await api.get("/realms/us/nodes")).status_code == 200


async def test_several_processes_serve_the_realms_and_share_their_counts(start_hub, file):
    hub = start_hub(HUB_REALMS_FILE=str(file), HUB_WORKERS="2", HUB_NODE_TIMEOUT="600")
    async with hub.client() as api:
        await eventually(lambda: is_state(api, "eu", "open"))
        await offer(api, "eu-1", "gpu:a:eu", "s1", headers=as_role(hub, "node"))

        async def counted() -> bool:
            return 'hub_nodes_registered{realm="eu"} 1.0' in (await api.get("/metrics")).text

        await eventually(counted)
        hub.signal(signal.SIGHUP)
        await eventually(lambda: logged(hub, "realms file loaded"))
        lent = await api.post("/session/borrow", json={"labelKey": "gpu:a:eu"}, headers=as_role(hub, "runner"))
        assert lent.json()["browserId"] == "s1", lent.text


def test_a_hub_refuses_an_unusable_realms_file(tmp_path, redis_server):
    file = tmp_path / "realms.toml"
    file.write_text('[[realms]]\nname = "EU"\nurl = "redis://a"\n')
    hub = HubProcess({"HUB_REDIS_URL": redis_server.url, "HUB_REALMS_FILE": str(file)})
    try:
        assert hub.process.wait() == 1
        assert "entry 1: name must be 1 to 32 of a-z, 0-9 and -." in hub.log()
    finally:
        hub.kill()

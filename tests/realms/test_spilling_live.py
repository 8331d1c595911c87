"""Spill-over with hubs in processes of their own: the SDK, the command, and another realm that does not answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import httpx
import pytest

from hub.client import HubClient, SyncHubClient
from tests.cli.command import Command
from tests.realms.world import EU, offer, write_realms
from tests.world import HubProcess, RedisServer, eventually

LABEL = "gpu:a100:eu"
IN_EU, IN_US = {"x-hub-realm": "eu"}, {"x-hub-realm": "us"}


@pytest.fixture
def far(tmp_path: Path) -> Iterator[RedisServer]:
    """The store of us, which a test may stop."""
    with RedisServer(tmp_path / "far") as server:
        yield server


@pytest.fixture
def hub(start_hub: Callable[..., HubProcess], tmp_path: Path, far: RedisServer, second: RedisServer) -> HubProcess:
    """A hub of which eu spills over to us at once."""
    spilling = {**EU, "spill_to": ["us"], "spill_after_s": 0}
    file = write_realms(tmp_path / "realms.toml", eu=(second.url, spilling), us=(far.url, {}))
    return start_hub(HUB_REALMS_FILE=str(file), HUB_NODE_TIMEOUT="600", HUB_BORROW_QUEUE_TIMEOUT_SECONDS="20")


@pytest.fixture
async def api(hub: HubProcess) -> AsyncIterator[httpx.AsyncClient]:
    """Its client, once all realms are open."""
    async with httpx.AsyncClient(base_url=hub.url, timeout=60) as client:
        client.headers["x-hub-secret"] = hub.admin_secret

        async def all_open() -> bool:
            return {each["state"] for each in (await client.get("/realms")).json()["realms"]} == {"open"}

        await eventually(all_open)
        yield client


async def lend(api: httpx.AsyncClient, hub: HubProcess, slot: str, realm: dict[str, str]) -> None:
    await offer(api, f"n-{slot}", LABEL, slot, headers={"x-hub-secret": hub.node_secret, **realm})


async def is_waiting(api: httpx.AsyncClient) -> bool:
    return bool((await api.get("/queue", headers=IN_EU)).json()["waiting"] == 1)


async def is_free(api: httpx.AsyncClient) -> bool:
    return bool((await api.get("/sessions", headers=IN_US)).json()["total"] == 0)


async def test_the_sdk_can_borrow_renew_and_return_a_slot_of_another_realm(hub, api):
    await lend(api, hub, "s1", IN_US)
    async with HubClient(hub.url, hub.runner_secret) as client:
        async with client.borrow(LABEL, wait=20) as slot:  # by the rule of the file
            assert (slot.id, slot.realm) == ("s1", "us")
            await client.renew(slot, 90)
            assert (await client.verify(slot.id, slot.token))["valid"]
        await eventually(lambda: is_free(api))
        async with client.borrow("gpu:a100", wait=20, realms=["default", "us"]) as slot:
            assert (slot.id, slot.realm) == ("s1", "us")
    await eventually(lambda: is_free(api))
    with (
        SyncHubClient(f"{hub.url}/realms/eu", hub.runner_secret) as in_eu,
        in_eu.borrow(LABEL, wait=20, realms=["us"]) as slot,
    ):
        assert (slot.id, slot.realm) == ("s1", "us")
        in_eu.renew(slot, 90)
    await eventually(lambda: is_free(api))
    await lend(api, hub, "s2", IN_EU)
    async with HubClient(hub.url, hub.runner_secret) as client, client.borrow(LABEL, wait=20) as slot:
        assert (slot.id, slot.realm) == ("s2", None)


async def test_the_borrow_command_borrows_in_the_realms_it_names(hub, api, tmp_path):
    await lend(api, hub, "s1", IN_US)
    words = ("borrow", "gpu:a100", "--wait", "20", "--realms", "eu, us", "--", "printenv", "HUB_SLOT_ID")
    done = await asyncio.to_thread(Command(hub, tmp_path), *words)
    assert (done.returncode, done.stdout.strip()) == (0, "s1"), done.stderr


@pytest.mark.parametrize("how", ["frozen", "killed"])
async def test_a_realm_that_does_not_answer_does_not_delay_a_borrow_at_home(hub, api, far, how):
    runner = {"x-hub-secret": hub.runner_secret}
    body = {"labelKey": LABEL, "maxWaitSeconds": 20, "runId": "r"}
    if how == "frozen":
        far.freeze()
    else:
        far.kill()
    try:
        async with httpx.AsyncClient(base_url=hub.url, headers=runner, timeout=60) as client:
            started = time.monotonic()
            vain = await client.post("/session/borrow", json={**body, "maxWaitSeconds": 3})
            assert (vain.status_code, vain.json()["code"]) == (503, "timeout")
            assert time.monotonic() - started < 15  # and not as long as that realm is asked
            waiting = asyncio.ensure_future(client.post("/session/borrow", json=body))
            await eventually(lambda: is_waiting(api))
            await lend(api, hub, "s2", IN_EU)
            answer = await waiting
            assert (answer.status_code, answer.json()["browserId"]) == (200, "s2"), answer.text
    finally:
        if how == "frozen":
            far.thaw()

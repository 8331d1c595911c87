"""A socket whose token is revoked, or gives fewer rights, is cut off within a second and gains nothing until then."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Any
from uuid import UUID

import httpx
import pytest
from socketio.exceptions import ConnectionError as Refused

from tests.sockets.conftest import TOKENS
from tests.sockets.people import JOB, OK, Listener, publish
from tests.world import PATIENCE_S, HubProcess, eventually

ADMIN = {"x-hub-secret": "admin-s3"}
OFFER = {"category": "modifiers", "name": "Rotate"}


async def make(hub: HubProcess, **wanted: Any) -> dict[str, Any]:
    async with hub.client() as api:
        answer = await api.post("/admin/tokens", json={"user": "eve", **wanted})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def revoke(hub: HubProcess, token: str) -> None:
    async with hub.client() as api:
        assert (await api.delete(f"/admin/tokens/{token}")).status_code == 200


def hung_up(*listeners: Listener) -> Callable[[], Any]:
    return lambda: all(listener.hung_up_on for listener in listeners)


@pytest.mark.parametrize("transport", ["websocket", "polling"])
@pytest.mark.parametrize("shown", ["connect packet", "header", "secret"])
async def test_a_socket_whose_token_is_revoked_at_another_hub_is_cut_off_and_refused(
    transport, shown, here, start, listen, redis
):
    other, token = start(), await make(here)
    headers = {"header": {"authorization": f"Bearer {token['token']}"}, "secret": {"x-hub-secret": token["token"]}}
    eve = await listen(
        here,
        token["token"] if shown == "connect packet" else None,
        headers=headers.get(shown, {}),
        transports=[transport],
    )
    ann = await listen(here, "ann")
    assert (await eve.join("lab"), await eve.offer("0" * 32), await ann.join("lab")) == (OK, OK, OK)
    await revoke(other, token["id"])
    await eventually(hung_up(eve))
    publish(redis, "after", "room:lab")
    await eventually(lambda: len(ann.told) == 1)
    assert (eve.told, ann.hung_up_on) == ([], 0)
    again = Listener(here, token["token"])
    with pytest.raises(Refused):
        await again.connect()
    await again.hang_up()


async def test_messages_with_a_revoked_token_are_refused(serve, listen, redis, monkeypatch):
    monkeypatch.setattr("hub.api.sockets.sockets.RECHECK_S", 3600)  # the rounds find nothing
    process, state = await serve(admin_secret="admin-s3")
    async with httpx.AsyncClient(base_url=process.url, headers=ADMIN, timeout=PATIENCE_S) as api:
        token = (await api.post("/admin/tokens", json={"user": "eve"})).json()
        eve = await listen(process, token["token"])
        assert await eve.join("lab") == OK
        assert (await api.delete(f"/admin/tokens/{token['id']}")).status_code == 200
    for event in (
        ("room_join", {"room_id": "other"}),
        ("join_job_room", {"job_name": JOB}),
        ("join_provider_room", {"provider_name": JOB}),
    ):
        assert await eve.say(*event) == "Unauthorized"
    (connection,) = state.sockets._rooms.connections.values()
    assert connection.rooms == {"room:lab"}


async def test_a_socket_is_cut_off_when_its_token_of_the_file_is_given_fewer_rights(start, listen, tokens):
    hub = start()
    ann, bob = await listen(hub, "ann", reconnection=True), await listen(hub, "bob")
    assert await ann.offer("0" * 32) == OK
    tokens.write_text(TOKENS.replace('token = "ann"\n', 'token = "ann"\nscopes = ["read"]\n'))
    hub.signal(signal.SIGHUP)
    await eventually(hung_up(ann))
    await eventually(lambda: ann.client.connected)
    assert "worker" in await ann.offer("0" * 32)
    assert await ann.join("lab") == OK
    assert bob.hung_up_on == 0


async def test_the_first_token_of_an_open_hub_makes_connected_operators_strangers(serve, listen):
    process, _ = await serve()
    anybody = await listen(process, None, reconnection=True)
    assert await anybody.offer("0" * 32) == OK
    async with httpx.AsyncClient(base_url=process.url, timeout=PATIENCE_S) as api:
        await api.post("/admin/tokens", json={"user": "ann", "superuser": True})
    await eventually(hung_up(anybody))
    await eventually(lambda: anybody.client.connected)
    assert await anybody.offer("0" * 32) == "Unauthorized"


async def test_while_the_store_is_away_no_socket_is_cut_off(own_redis, serve, listen):
    process, state = await serve(redis_url=own_redis.url, admin_secret="admin-s3")
    async with httpx.AsyncClient(base_url=process.url, headers=ADMIN, timeout=PATIENCE_S) as api:
        token = (await api.post("/admin/tokens", json={"user": "eve"})).json()
    eve = await listen(process, token["token"])
    own_redis.kill()
    state.serving.hub.store.set_away()
    for _ in range(3):
        await state.sockets.recheck()
    assert (eve.hung_up_on, eve.client.connected) == (0, True)


async def test_a_waiting_claim_gets_nothing_once_its_token_is_revoked(here, redis):
    token = await make(here)
    shown = {"authorization": f"Bearer {token['token']}"}
    async with here.client() as admin, httpx.AsyncClient(base_url=here.url, headers=shown, timeout=PATIENCE_S) as eve:
        made = await eve.put("/v1/joblib/rooms/lab/jobs", json=OFFER)
        wanted = {"worker_id": made.json()["worker_id"], "waitSeconds": 20}
        claim = asyncio.create_task(eve.post("/v1/joblib/tasks/claim", json=wanted))
        await eventually(lambda: redis.pubsub_numsub(f"hub:job_bell:{JOB}")[0][1] == 1)
        await revoke(here, token["id"])
        task = (await admin.post(f"/v1/joblib/rooms/lab/tasks/{JOB}", json={"payload": {"x": 1}})).json()
        assert (await claim).status_code == 401
        assert (await admin.get(f"/v1/joblib/tasks/{task['id']}")).json()["status"] == "pending"


async def test_a_read_waiting_for_a_task_is_refused_once_its_token_is_revoked(start, redis):
    hub = start(HUB_ANONYMOUS_READS="false")
    token = await make(hub)
    shown = {"authorization": f"Bearer {token['token']}", "prefer": "wait=20"}
    async with hub.client() as admin, httpx.AsyncClient(base_url=hub.url, headers=shown, timeout=PATIENCE_S) as eve:
        await eve.put("/v1/joblib/rooms/lab/jobs", json=OFFER)
        task = (await eve.post(f"/v1/joblib/rooms/lab/tasks/{JOB}", json={"payload": {}})).json()["id"]
        looking = asyncio.create_task(eve.get(f"/v1/joblib/tasks/{task}"))
        subscription = f"hub:task_done:{UUID(task).hex}"
        await eventually(lambda: redis.pubsub_numsub(subscription)[0][1] == 1)
        await revoke(hub, token["id"])
        await admin.patch(f"/v1/joblib/tasks/{task}", json={"status": "cancelled"})
        assert (await looking).status_code == 401

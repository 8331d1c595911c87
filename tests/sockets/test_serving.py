"""Pings, silence and processes: how a hub treats unused connections, and connections it cannot serve."""

from __future__ import annotations

import asyncio
import signal

import aiohttp
import pytest
import requests
import socketio
from aiohttp import WSMsgType

from hub.api.callers.caller import OPERATOR
from hub.api.sockets import sockets
from hub.jobs.models import JobRequest
from hub.store import connection
from tests.sockets.people import ANN, JOB, OK, connections, new_worker, publish
from tests.world import PATIENCE_S, eventually, wait_until

ENDED = (WSMsgType.CLOSE, WSMsgType.CLOSED, WSMsgType.ERROR)


async def test_events_of_an_in_memory_store_are_heard(serve, listen, monkeypatch):
    monkeypatch.setattr(connection, "find_server", lambda: None)
    here, app = await serve(redis_url=None)
    listener = await listen(here, None)
    assert await listener.join("lab") == OK
    await app.serving.hub.jobs.register(JobRequest("lab", "modifiers", "Rotate"), {}, ANN, superuser=False)
    await eventually(lambda: listener.told == [("jobs_invalidate", {})])


async def test_a_client_that_does_not_answer_pings_is_disconnected_and_may_reconnect(serve, hub, redis, monkeypatch):
    """Its connection is cut without a word: clients that are told to close do not connect again."""
    monkeypatch.setattr(sockets, "PING_S", 0.1)
    monkeypatch.setattr(sockets, "PONG_S", 3)  # however slow the machine is, it joins before that
    here, _ = await serve()
    worker = (await hub.workers.create(OPERATOR.user, new_worker())).id  # the hub is open
    url = f"{here.url}/socket.io/?EIO=4&transport=websocket"
    async with aiohttp.ClientSession() as session, session.ws_connect(url) as socket:
        assert (await socket.receive_str()).startswith("0")
        await socket.send_str("40")
        await socket.send_str(f'42["join_job_room",{{"job_name":"{JOB}","worker_id":"{worker}"}}]')
        await eventually(lambda: connections(redis, worker) == 1)
        heard = [await socket.receive()]
        while heard[-1].type not in ENDED:
            heard.append(await socket.receive())
    assert sorted(message.data[:2] for message in heard[:-1]) == ["2", "40"]
    await eventually(lambda: connections(redis, worker) == 0)
    assert redis.zrange("hub:hung_up", 0, -1) == [worker]


async def test_a_connection_that_never_authenticates_is_ended(serve, monkeypatch):
    monkeypatch.setattr(sockets, "ROUND_S", 0.05)
    here, app = await serve()
    async with aiohttp.ClientSession() as session:
        url = f"{here.url}/socket.io/?EIO=4&transport="
        async with session.ws_connect(url + "websocket") as socket, session.get(url + "polling") as polled:
            assert (polled.status, (await socket.receive()).data[0]) == (200, "0")
            assert (await asyncio.wait_for(socket.receive(), PATIENCE_S)).type in ENDED
            await eventually(lambda: not app.sockets._server.eio.sockets)


def test_with_several_processes_websockets_are_accepted_and_polling_is_refused_with_a_reason(start, redis):
    hub = start(HUB_WORKERS="2")
    polled = requests.get(f"{hub.url}/socket.io/?EIO=4&transport=polling", timeout=PATIENCE_S)
    assert (polled.status_code, "transports=['websocket']" in polled.text) == (400, True)
    told: list[object] = []
    clients = [socketio.Client(reconnection=False) for _ in range(6)]
    for client in clients:
        client.on("jobs_invalidate", told.append)
        client.connect(hub.url, auth={"token": "ann"}, transports=["websocket"], wait_timeout=PATIENCE_S)
        assert client.call("room_join", {"room_id": "lab"}, timeout=PATIENCE_S) == OK
    publish(redis, "jobs_invalidate", "room:lab")
    wait_until(lambda: told == [{}] * 6)
    for client in clients:
        client.disconnect()
    hub.signal(signal.SIGTERM)  # a supervisor that is killed leaves its processes to find out
    hub.process.wait(PATIENCE_S)


@pytest.mark.parametrize("transports", [None, ["polling"]], ids=["upgraded", "polling"])
def test_a_client_with_threads_connects_upgrades_and_disconnects_promptly(transports, here, redis):
    """Workers of the published client use this kind of client."""
    client, told = socketio.Client(reconnection=False), []
    client.on("task_available", told.append)
    client.connect(here.url, auth={"token": "ann"}, transports=transports, wait_timeout=PATIENCE_S)
    assert client.transport() == ("polling" if transports else "websocket")
    assert client.call("join_job_room", {"job_name": JOB, "worker_id": "None"}, timeout=PATIENCE_S) == OK
    publish(redis, "task_available", f"jobs:{JOB}", {"task_id": "t1"})
    wait_until(lambda: told == [{"task_id": "t1"}])
    client.disconnect()
    assert not client.connected


@pytest.mark.parametrize("path", ["/health/ready", "/node/heartbeat", "/socket.iox/", "/v1/joblib/workers"])
def test_an_upgrade_request_on_any_other_path_is_answered_as_plain_http(path, here):
    headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    headers["Sec-WebSocket-Key"] = "eHh4eHh4eHh4eHh4eHh4eA=="
    plain = requests.get(here.url + path, timeout=PATIENCE_S)
    asked = requests.get(here.url + path, headers=headers, timeout=PATIENCE_S)
    assert (asked.status_code, asked.headers.get("upgrade")) == (plain.status_code, None)

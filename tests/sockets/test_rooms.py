"""Messages of clients: joining and leaving rooms any number of times, and invalid messages, which do no harm."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import aiohttp
import pytest
import requests

from hub.api.callers.caller import STRANGER
from hub.api.callers.finding import Shown
from hub.api.sockets import rooms
from hub.api.sockets.events import Channel
from hub.api.sockets.rooms import NAME_MAX, ROOMS_MAX
from hub.errors import StoreFault
from tests.sockets.people import ANN, BOB, JOB, OK, Listener, connections, new_worker, publish, traces
from tests.world import PATIENCE_S, HubProcess, eventually


async def test_rooms_can_be_joined_and_left_in_any_order_and_repeatedly(here, listen):
    listener = await listen(here)
    for kind, member, value in (
        ("job_room", "job_name", JOB),
        ("provider_room", "provider_name", "lab:frames:with:colons/and/slashes"),
    ):
        for event in (f"leave_{kind}", f"join_{kind}", f"join_{kind}", f"leave_{kind}", f"leave_{kind}"):
            assert await listener.say(event, {member: value, "worker_id": new_worker()}) == OK
    for event in ("room_leave", "room_join", "room_join", "room_leave"):
        assert await listener.say(event, {"room_id": "lab 1"}) == OK


@pytest.mark.parametrize("worker", ["None", None, 5, "", "not-a-uuid", ["x"], "0f" * 16])
async def test_a_room_is_joined_even_with_an_invalid_worker(worker, here, listen, redis):
    listener = await listen(here)
    assert await listener.say("join_job_room", {"job_name": JOB, "worker_id": worker}) == OK
    publish(redis, "task_available", f"jobs:{JOB}")
    await eventually(lambda: _told(listener, "task_available"))
    assert traces(redis) == set()


async def test_joining_binds_only_workers_of_the_caller(here, listen, redis, hub):
    mine = (await hub.workers.create(ANN, new_worker())).id
    bobs = (await hub.workers.create(BOB, new_worker())).id
    ann, root = await listen(here, "ann"), await listen(here, "root")
    for worker in (mine, bobs):
        assert await ann.offer(worker) == OK
        assert await root.offer(worker) == OK
    assert (connections(redis, mine), connections(redis, bobs)) == (1, 0)
    await ann.say("leave_job_room", {"job_name": JOB, "worker_id": mine})
    assert connections(redis, mine) == 1


async def test_a_worker_is_bound_to_a_connection_that_hears_its_events(serve, listen, redis, hub, tokens, monkeypatch):
    """The worker hears of each task that is submitted after it was bound."""
    process, _ = await serve(tokens_file=tokens)
    worker = (await hub.workers.create(ANN, new_worker())).id
    hears, bound_before = Channel.hears, list[int]()

    async def noted(channel: Channel, wait_s: float) -> bool:
        bound_before.append(connections(redis, worker))
        return await hears(channel, wait_s)

    monkeypatch.setattr(Channel, "hears", noted)
    listener = await listen(process, "ann")
    assert await listener.offer(worker) == OK
    assert (set(bound_before), connections(redis, worker)) == ({0}, 1)


SAYINGS: list[Any] = [
    None, 0, True, "lab", [], {}, [{"room_id": "lab"}], {"room_id": None}, {"room_id": 7}, {"room_id": ""},
    {"room_id": ["lab"]}, {"room_id": {"a": 1}}, {"room_id": "a" * (NAME_MAX + 1)}, {"room_id": "a:b"},
    {"room_id": "@other"}, {"job_name": None}, {"job_name": "a:b"}, {"job_name": ["a:b:c"]}, {"provider_name": 1},
]  # fmt: skip


async def test_invalid_messages_are_answered_with_a_reason_and_change_nothing(here, listen, redis):
    listener = await listen(here)
    events = ("join_job_room", "leave_job_room", "join_provider_room", "leave_provider_room", "room_join")
    for event in events:
        for said in SAYINGS:
            answer = await listener.say(event, said)
            assert isinstance(answer, str), (event, said, answer)
    await listener.client.emit("room_join", ({"room_id": "lab"}, "and", "more"))
    await listener.client.emit("no_such_event", {"a": 1})
    await listener.client.emit("room_join", b"\x00bytes")
    assert await (await listen(here)).join("lab") == OK
    assert "Traceback" not in here.log()


async def test_a_connection_may_be_in_a_limited_number_of_rooms(here, listen):
    listener = await listen(here)
    for number in range(ROOMS_MAX):
        await listener.client.emit("room_join", {"room_id": f"r{number}"})
    assert await listener.join("r1") == OK
    assert str(ROOMS_MAX) in await listener.join("one more")
    await listener.say("room_leave", {"room_id": "r1"})
    assert await listener.join("one more") == OK


async def test_a_client_that_sends_too_many_messages_is_delayed_alone(serve, listen, monkeypatch):
    monkeypatch.setattr(rooms, "EVENTS_PER_S", 0.001)
    monkeypatch.setattr(rooms, "EVENTS_AT_ONCE", 3)
    process, _ = await serve()
    loud, other = await listen(process, None), await listen(process, None)
    assert [await loud.join(f"r{number}") for number in range(3)] == [OK] * 3
    late = asyncio.create_task(loud.join("r3"))
    assert [await other.join(f"r{number}") for number in range(3)] == [OK] * 3
    assert not late.done()
    late.cancel()


def test_messages_within_the_allowed_rate_are_not_delayed():
    connection = rooms.SocketConnection(STRANGER, Shown(), names_realm=False)
    assert [connection.early_s(1000.0) for _ in range(rooms.EVENTS_AT_ONCE)] == [0.0] * rooms.EVENTS_AT_ONCE
    waits = [connection.early_s(1000.0) for _ in range(3)]
    assert waits == pytest.approx([1 / rooms.EVENTS_PER_S, 2 / rooms.EVENTS_PER_S, 3 / rooms.EVENTS_PER_S], rel=1e-6)
    assert connection.early_s(2000.0) == 0.0


@pytest.mark.parametrize(
    "frame",
    [
        "",
        "x",
        "9",
        "4",
        "4x",
        "40/other,",
        "42",
        "42[]",
        "42{}",
        "4251-[]",
        "451-" + "{",
        "2probe",
        "5",
        "4" + "[" * 60_000,
    ],
)
async def test_a_websocket_with_invalid_frames_loses_only_its_own_connection(frame, here, listen):
    url = f"{here.url}/socket.io/?EIO=4&transport=websocket"
    async with aiohttp.ClientSession() as session, session.ws_connect(url) as socket:
        assert (await socket.receive_str()).startswith("0")
        await socket.send_str(frame)
        with contextlib.suppress(aiohttp.ClientConnectionResetError):  # it may have been hung up on by now
            await socket.send_bytes(b"\x00\xff")
            await socket.send_str('40{"token":"ann"}')
        await asyncio.wait_for(socket.receive(), PATIENCE_S)
    assert await (await listen(here)).join("lab") == OK
    assert "Traceback" not in here.log()


@pytest.mark.parametrize("size", [65_537, 200_000])
async def test_a_too_long_message_ends_the_connection(size, here, listen):
    listener = await listen(here)
    await listener.client.emit("room_join", {"room_id": "x" * size})
    await eventually(lambda: _hung_up_on(listener))


def session_at(process: HubProcess) -> str:
    opened = requests.get(f"{process.url}/socket.io/?EIO=4&transport=polling", timeout=PATIENCE_S)
    return str(opened.json()["sid"]) if opened.text.startswith("{") else opened.text.split('"sid":"')[1].split('"')[0]


@pytest.mark.parametrize(
    ("body", "status"), [(b"x" * 65_537, 413), (b"\xff\xfe", 200), (b"", 200), (b"\x1e" * 40, 200), (b"d=", 200)]
)
def test_polling_bodies_are_limited_and_invalid_ones_are_harmless(body, status, here):
    url = f"{here.url}/socket.io/?EIO=4&transport=polling&sid={session_at(here)}"
    assert requests.post(url, data=body, timeout=PATIENCE_S).status_code == status
    assert requests.post(url, data=iter([body]), timeout=PATIENCE_S).status_code == status  # without its length
    assert "Traceback" not in here.log()


@pytest.mark.parametrize(
    ("method", "query", "status"),
    [
        ("GET", "", 400),
        ("GET", "EIO=3&transport=polling", 400),
        ("GET", "EIO=4&transport=pigeon", 400),
        ("GET", "EIO=4&transport=polling&sid=nobody", 400),
        ("POST", "EIO=4&transport=polling&sid=nobody", 400),
        ("GET", "EIO=4&transport=websocket", 400),
        ("GET", "EIO=4&transport=polling&j=x", 400),
        ("PUT", "EIO=4&transport=polling", 405),
        ("GET", "%ff%fe=", 400),
    ],
)
def test_requests_that_are_not_socket_io_are_refused(method, query, status, here):
    assert requests.request(method, f"{here.url}/socket.io/?{query}", timeout=PATIENCE_S).status_code == status
    assert "Traceback" not in here.log()


async def _told(listener: Listener, event: str) -> bool:
    return listener.told == [(event, {})]


async def _hung_up_on(listener: Listener) -> bool:
    return listener.hung_up_on == 1


async def test_an_error_reply_of_redis_is_logged_and_not_sent_to_the_client(serve, listen, monkeypatch, caplog):
    async def refuse(*_):
        raise StoreFault("sockets/bind: the password is hunter2")

    process, state = await serve()
    monkeypatch.setattr(state.serving.hub.presence, "bind", refuse)
    listener = await listen(process, token=None)
    assert await listener.offer(new_worker()) == "The hub failed on this event."
    assert "hunter2" in caplog.text


@pytest.mark.parametrize("event", ["join_provider_room", "join_job_room", "room_join"])
async def test_a_name_with_half_of_a_surrogate_pair_is_refused_in_a_sentence(event, here, listen):
    listener = await listen(here, "ann")
    said = {"provider_name": "lab:frames:\ud800", "job_name": "lab:modifiers:\ud800", "room_id": "\ud800"}
    assert "half of a character" in await listener.say(event, said)

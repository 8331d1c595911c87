"""A WebSocket through the gate: the open connection is the lease."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed, InvalidStatus

from hub.client import NodeAgent
from tests.client.live import client_of
from tests.gate.gates import LABEL, EchoSlot, GateProcess, node_of, said
from tests.world import PATIENCE_S, HubProcess, eventually

pytestmark = pytest.mark.slow


async def leases(hub: HubProcess) -> int:
    async with client_of(hub) as client:
        return int((await client.leases())["total"])


async def test_the_slot_is_lent_while_the_connection_is_open_and_free_when_it_is_closed(live_hub, gate, slot):
    async with gate.open() as socket:
        assert await said(socket, "hello") == "hello"
        assert await leases(live_hub) == 1
    await eventually(lambda: _none(live_hub))


async def _none(hub: HubProcess) -> bool:
    return await leases(hub) == 0


async def test_a_lease_outlives_its_length_while_the_connection_is_open(live_hub, gate, slot, redis):
    async with gate.open(query="?ttl=3") as socket:
        first = _deadline(redis)
        await eventually(lambda: _deadline(redis) > first + 3000)
        assert await said(socket, "still") == "still"


def _deadline(redis) -> float:
    return float(redis.zscore("hub:deadlines", "s1") or 0)


@pytest.mark.parametrize("abort", [True, False], ids=["a cut connection", "a close frame"])
async def test_a_caller_that_leaves_frees_the_slot_for_the_next_in_the_queue(gate, slot, redis, abort):
    first = await gate.open()
    waiting = asyncio.ensure_future(_opened(gate))
    await eventually(lambda: redis.zcard(f"hub:line:{LABEL}") == 1)
    if abort:
        first.transport.abort()
    else:
        await first.close()
    second = await waiting
    assert await said(second, "mine") == "mine"
    tokens = [token for _, token, _ in slot.pieces]
    assert tokens == sorted(tokens)
    await second.close()


async def _opened(gate: GateProcess):
    return await gate.open(query="?wait=30", open_timeout=40)


async def test_a_full_label_is_refused_before_the_upgrade_with_the_document_of_the_queue(gate, slot):
    async with gate.open():
        with pytest.raises(InvalidStatus) as refused:
            await gate.open(query="?wait=0.2")
    answer = refused.value.response
    problem = json.loads(answer.body)
    assert (answer.status_code, problem["code"], problem["status"]) == (503, "timeout", 503)
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem["instance"] == f"/connect/{LABEL}"
    assert {"position", "ticket"} <= problem.keys()
    assert int(answer.headers["retry-after"]) > 0


async def test_a_caller_that_leaves_while_it_waits_gives_up_its_ticket(live_hub, gate, slot, redis):
    async with gate.open() as first:
        waiting = asyncio.ensure_future(gate.open(query="?wait=60", open_timeout=90).__aenter__())
        await eventually(lambda: redis.zcard(f"hub:line:{LABEL}") == 1)
        waiting.cancel()
        await eventually(lambda: redis.zcard(f"hub:line:{LABEL}") == 0)
        assert await said(first, "x") == "x"


async def test_a_slot_that_dies_closes_the_connection_with_1011_and_its_name(gate, slot):
    async with gate.open() as socket:
        await said(socket, "x")
        slot.writers[-1].transport.abort()
        with pytest.raises(ConnectionClosed) as closed:
            await socket.recv()
    assert closed.value.rcvd is not None
    assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1011, "slot s1 closed its connection")


async def test_a_withdrawn_slot_closes_the_connection_with_1011_and_the_reason_of_its_node(live_hub, gate):
    async with EchoSlot() as echo, node_of(live_hub, {"s1": echo.address}) as agent, gate.open() as socket:
        await said(socket, "x")
        await agent.withdraw("s1", reason="the screen is broken")
        with pytest.raises(ConnectionClosed) as closed:
            await socket.recv()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1011
    assert "the screen is broken" in closed.value.rcvd.reason


async def test_a_gate_that_stops_says_so_and_gives_its_slots_back(live_hub, gate, slot, redis):
    async with gate.open() as socket:
        await said(socket, "x")
        gate.signal(signal.SIGTERM)
        with pytest.raises(ConnectionClosed) as closed:
            await socket.recv()
    assert closed.value.rcvd is not None
    assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1001, "the gate stops")
    assert gate.process.wait(30) == 0
    assert await leases(live_hub) == 0


async def test_a_killed_gate_leaves_its_leases_to_lapse(live_hub, gate, slot):
    async with gate.open(query="?ttl=3") as socket:
        await said(socket, "x")
        gate.kill()
        await eventually(lambda: _none(live_hub))


async def test_a_slot_with_an_http_address_is_asked_where_its_websocket_is(live_hub, gate):
    async def echo(socket):
        paths.append(socket.request.path)
        async for message in socket:
            await socket.send(message)

    def tell(connection, request):
        if request.path == "/json/version":
            body = json.dumps({"webSocketDebuggerUrl": "ws://localhost:1/devtools/browser/b1"})
            return connection.respond(200, body)
        return None

    paths: list[str] = []
    async with serve(echo, "127.0.0.1", 0, process_request=tell) as server:
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        given = [{"slotId": "s1", "labelKey": LABEL, "endpoint": address}]
        agent = NodeAgent("n1", slots=given, url=live_hub.url, secret=live_hub.node_secret)
        async with agent, gate.open() as socket:
            assert await said(socket, "hello") == "hello"
    assert paths == ["/devtools/browser/b1"]


async def test_a_slot_that_cannot_be_reached_is_a_502_and_is_given_back(live_hub, gate):
    async with node_of(live_hub, {"s1": "ws://127.0.0.1:9/"}):
        with pytest.raises(InvalidStatus) as refused:
            await gate.open()
        problem = json.loads(refused.value.response.body)
        assert (problem["status"], problem["code"]) == (502, "slot-unreachable")
        assert "s1" in problem["detail"]
        await eventually(lambda: _none(live_hub))


async def test_a_connection_without_traffic_ends_by_the_idle_rule_of_its_slot(live_hub, gate):
    async with EchoSlot() as echo:
        given = {"slotId": "s1", "labelKey": LABEL, "webSocketEndpoint": echo.address, "idleTimeoutSeconds": 3}
        agent = NodeAgent("n1", slots=[given], url=live_hub.url, secret=live_hub.node_secret)
        async with agent, gate.open() as socket:
            for _ in range(8):  # together longer than the idle time
                assert await said(socket, "busy") == "busy"
                await asyncio.wait([asyncio.ensure_future(socket.wait_closed())], timeout=0.5)
            with pytest.raises(ConnectionClosed) as closed:
                await socket.recv()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1011
    assert closed.value.rcvd.reason in (
        "nothing was sent for 3 s",
        # The hub has the same rule, and a slow gate hears first that the hub has ended the lease.
        f"slot s1 of {LABEL} is lost: the hub ended the lease (it was not used for its idle time)",
    )


async def test_a_slot_sets_no_cookie_with_its_answer_to_a_handshake(gate, slot):
    async with gate.open() as socket:
        assert await said(socket, "x") == "x"
        assert socket.response.headers["x-of-slot"] == "yes"
        assert "set-cookie" not in socket.response.headers


async def test_an_address_that_is_no_url_is_a_502_and_is_not_connected_to(live_hub, gate):
    async with EchoSlot() as echo, node_of(live_hub, {"s1": f"{echo.address}/\u0436"}):
        before = len(os.listdir(f"/proc/{gate.process.pid}/fd"))
        for _ in range(5):
            with pytest.raises(InvalidStatus) as refused:
                await gate.open()
            assert refused.value.response.status_code == 502
        await eventually(lambda: len(os.listdir(f"/proc/{gate.process.pid}/fd")) <= before + 4)
        assert echo.writers == []


@asynccontextmanager
async def version_of(hub: HubProcess, pieces: int) -> AsyncIterator[list[int]]:
    """A node whose slot begins to answer /json/version: with so many blanks, by the 64 KiB, and then no more. The list
    has the length of each piece that was taken."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            if b"/json/version" in head:
                writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
                sent.append(0)
                for _ in range(pieces):
                    writer.write(b" " * 65_536)
                    await writer.drain()
                    sent.append(65_536)
                await reader.read()  # until the gate leaves
        writer.close()

    sent: list[int] = []
    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with node_of(hub, {"s1": address}):
            yield sent


async def test_an_endless_answer_about_the_version_is_a_502_of_which_little_is_read(live_hub, gate):
    async with version_of(live_hub, 1000) as sent:
        with pytest.raises(InvalidStatus) as refused:
            await gate.open(open_timeout=PATIENCE_S)
        assert refused.value.response.status_code == 502
        assert sum(sent) < 32 * 2**20, "what the buffers of the system hold, and little more"
        await eventually(lambda: _none(live_hub))


async def test_a_caller_that_leaves_while_a_slot_is_asked_for_its_version_gives_the_slot_back(live_hub):
    with GateProcess(live_hub, before="import hub.gate.slots; hub.gate.slots.ANSWER_S = 3600.0") as gate:
        async with version_of(live_hub, 0) as sent:
            asking = asyncio.ensure_future(gate.open(open_timeout=90).__aenter__())
            await eventually(lambda: sent)
            assert await leases(live_hub) == 1
            asking.cancel()
            await eventually(lambda: _none(live_hub))


async def test_bytes_count_as_use_for_the_idle_rule_of_the_pool_which_ends_a_quiet_connection(live_hub, gate):
    secret = {"x-hub-secret": live_hub.admin_secret}
    rule = {"idleSeconds": 3, "warnSeconds": 1}
    async with httpx.AsyncClient(base_url=live_hub.url, headers=secret) as operator:
        (await operator.put("/admin/pools/*/rules", json=rule, timeout=30)).raise_for_status()
    async with EchoSlot() as echo, node_of(live_hub, {"s1": echo.address}), gate.open() as socket:
        for _ in range(10):  # together longer than the idle time
            assert await said(socket, "busy") == "busy"
            await asyncio.wait([asyncio.ensure_future(socket.wait_closed())], timeout=0.5)
        with pytest.raises(ConnectionClosed) as closed:
            await socket.recv()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1011
    assert "it was not used for its idle time" in closed.value.rcvd.reason

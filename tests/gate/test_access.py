"""Access to the gate: credentials, web pages, bounds, and the secrets that the gate keeps to itself."""

from __future__ import annotations

import asyncio
import base64
import json
import signal
import socket
import ssl
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve
from websockets.exceptions import InvalidStatus

from hub.client import NodeAgent
from tests.certificates import Authority
from tests.gate.gates import LABEL, EchoSlot, GateProcess, node_of, said
from tests.world import HubProcess, answers, eventually, wait_until

pytestmark = pytest.mark.slow
SECRET = "runner-s3"
BASIC = "Basic " + base64.b64encode(f"anyone:{SECRET}".encode()).decode()


async def raw(gate: GateProcess, sent: bytes) -> tuple[int, dict[str, Any]]:
    """Return status and problem document of the answer to these bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gate.port)
    try:
        writer.write(sent)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
        body = await reader.readexactly(length)
        return int(head.split()[1]), json.loads(body or b"{}")
    finally:
        writer.close()


def ask(target: str, *headers: str, host: str = "127.0.0.1", upgrade: bool = True) -> bytes:
    more = ["Connection: Upgrade", "Upgrade: websocket"] if upgrade else []
    return "\r\n".join([f"GET {target} HTTP/1.1", f"Host: {host}", *more, *headers, "", ""]).encode()


CONNECT = f"/connect/{LABEL}"
HANDSHAKE = (f"x-hub-secret: {SECRET}", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13")


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (ask(CONNECT), 401, "unauthorized"),
        (ask(CONNECT, "x-hub-secret: wrong"), 401, "unauthorized"),
        (ask(CONNECT + "?token=wrong"), 401, "unauthorized"),
        (ask(CONNECT + f"?token={SECRET}&wait=soon"), 400, "bad-request"),
        (ask(CONNECT + f"?token={SECRET}&wait=nan"), 400, "bad-request"),
        (ask(CONNECT + f"?token={SECRET}&ttl=-1"), 400, "bad-request"),
        (ask(CONNECT + f"?token={SECRET}&patience=1"), 400, "bad-request"),
        (ask(CONNECT + f"?token={SECRET}", "x-hub-secret: another"), 400, "bad-request"),
        (ask(CONNECT, "Authorization: Basic ???"), 400, "bad-request"),
        (ask(CONNECT, f"x-hub-secret: {SECRET}", "Host: again"), 400, "bad-request"),
        (ask("/connect/no", f"x-hub-secret: {SECRET}"), 400, "invalid-label"),
        (ask("/connect/gpu:none?wait=0", f"x-hub-secret: {SECRET}"), 503, "no-capacity"),
        (ask(CONNECT + "?wait=0&where=vram%3E%3D40", f"x-hub-secret: {SECRET}"), 503, "no-capacity"),
        (ask(CONNECT + "?where=vram%3E%3E40", f"x-hub-secret: {SECRET}"), 400, "bad-where"),
        (ask(CONNECT, f"x-hub-secret: {SECRET}", upgrade=False), 404, "not-found"),
        (ask("/elsewhere", f"x-hub-secret: {SECRET}", upgrade=False), 404, "not-found"),
        (ask("/", upgrade=False), 401, "unauthorized"),
        (ask(CONNECT + "/session/s9", f"x-hub-secret: {SECRET}", upgrade=False), 404, "not-found"),
        (ask(CONNECT + "/x", f"x-hub-secret: {SECRET}"), 404, "not-found"),
        (ask(CONNECT, f"x-hub-secret: {SECRET}", "Origin: https://evil.example"), 403, "foreign"),
        (ask("/", f"x-hub-secret: {SECRET}", "Origin: null", upgrade=False), 403, "foreign"),
        (ask("/", f"x-hub-secret: {SECRET}", "Sec-Fetch-Site: cross-site", upgrade=False), 403, "foreign"),
        (ask(CONNECT + "/session/s9/../x", f"x-hub-secret: {SECRET}", upgrade=False), 400, "bad-request"),
        (ask(CONNECT + "/session/s9/%2e%2E", f"x-hub-secret: {SECRET}", upgrade=False), 400, "bad-request"),
        (ask(CONNECT + "/session/s9/..%2Fx", f"x-hub-secret: {SECRET}"), 400, "bad-request"),
        (
            ask("/", f"x-hub-secret: {SECRET}", upgrade=False) + ask(CONNECT, f"x-hub-secret: {SECRET}"),
            400,
            "bad-request",
        ),
        (ask(CONNECT, f"x-hub-secret: {SECRET}", host="evil.example"), 403, "foreign"),
        (ask("/", f"x-hub-secret: {SECRET}", host="evil.example:4444", upgrade=False), 403, "foreign"),
        (b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"x" * 40_000 + b"\r\n\r\n", 400, "bad-request"),
        (b"BREW /pot\r\n\r\n", 400, "bad-request"),
        (b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, ""),
    ],
)
async def test_what_is_not_to_be_served_is_refused_with_a_problem_document(gate, slot, sent, status, code):
    answered, problem = await raw(gate, sent)
    assert (answered, problem["status"]) == (status, status)
    assert problem["code"] == (code or problem["code"])
    assert SECRET not in json.dumps(problem)
    assert slot.pieces == []


@pytest.mark.parametrize(
    ("query", "headers"),
    [
        ("", {"x-hub-secret": SECRET}),
        ("", {"x-hub-secret": "", "authorization": f"Bearer {SECRET}"}),
        ("", {"x-hub-secret": "", "authorization": BASIC}),
        (f"?token={SECRET}", {"x-hub-secret": ""}),
    ],
    ids=["header", "bearer", "basic", "query"],
)
async def test_a_credential_is_taken_in_each_of_four_places_and_reaches_neither_slot_nor_log(
    gate, slot, query, headers
):
    async with gate.open(query=query, headers={**headers, "cookie": "mine=1"}) as socket:
        assert await said(socket, "x") == "x"
    (head,) = slot.heads
    for secret in (SECRET, BASIC.split()[1], "authorization", "x-hub-secret", "token=", "cookie"):
        assert secret not in head
    await eventually(lambda: "gate connection ended" in gate.log())
    assert SECRET not in gate.log()
    assert BASIC.split()[1] not in gate.log()


async def test_a_connection_whose_earlier_request_was_answered_becomes_a_websocket(gate, slot):
    reader, writer = await asyncio.open_connection("127.0.0.1", gate.port)
    for asked, status in ((ask("/health", upgrade=False), b" 200 "), (ask(CONNECT, *HANDSHAKE), b" 101 ")):
        writer.write(asked)
        head = await reader.readuntil(b"\r\n\r\n")
        assert status in head
        await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0))
    writer.close()


async def test_the_gate_answers_listed_origins_under_listed_host_names(live_hub, slot):
    listed = {"HUB_ALLOWED_ORIGINS": "https://ci.example", "HUB_ALLOWED_HOSTS": "gate.example"}
    with GateProcess(live_hub, **listed) as gate:
        headers = {"origin": "https://ci.example", "host": "gate.example"}
        answered, found = await raw(
            gate,
            ask("/", f"x-hub-secret: {SECRET}", f"Origin: {headers['origin']}", host=headers["host"], upgrade=False),
        )
    assert answered == 200
    assert found == {"total": 1, "pools": [{"label": LABEL, "free": 1, "connect": CONNECT}]}


async def test_one_credential_gets_so_many_connections_and_no_more(live_hub, slot):
    with GateProcess(live_hub, HUB_GATE_CONNECTIONS="1") as gate:
        async with gate.open():
            with pytest.raises(InvalidStatus) as refused:
                await gate.open()
            assert json.loads(refused.value.response.body)["code"] == "unavailable"
        await eventually(lambda: _answered(gate))


async def _answered(gate: GateProcess) -> bool:
    try:
        async with gate.open() as socket:
            return await said(socket, "x") == "x"
    except InvalidStatus:
        return False


async def test_a_gate_for_other_machines_serves_none_without_a_credential_nor_for_an_open_hub(start_hub):
    open_hub = start_hub(HUB_RUNNER_SECRET="", HUB_NODE_SECRET="", HUB_ADMIN_SECRET="")
    with GateProcess(open_hub, HUB_GATE_HOST="0.0.0.0") as gate:
        assert (await raw(gate, ask(CONNECT)))[0] == 401
        answered, problem = await raw(gate, ask(CONNECT, "x-hub-secret: any"))
    assert (answered, problem["code"]) == (403, "foreign")
    assert "no tls" in gate.log()


async def test_a_page_is_refused_although_its_browser_adds_a_credential(live_hub):
    with GateProcess(live_hub, HUB_GATE_HOST="0.0.0.0", HUB_ALLOWED_ORIGINS="https://ci.example") as gate:
        for target, upgrade in ((CONNECT, True), ("/", False)):
            page = ask(target, f"Authorization: {BASIC}", "Origin: https://evil.example", host="gate", upgrade=upgrade)
            answered, problem = await raw(gate, page)
            assert (answered, problem["code"]) == (403, "foreign")
        listed = ask("/", f"Authorization: {BASIC}", "Origin: https://ci.example", host="gate", upgrade=False)
        assert (await raw(gate, listed))[0] == 200


@pytest.mark.parametrize(
    ("site", "status"), [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)]
)
async def test_a_link_of_another_site_leads_nowhere_although_its_browser_adds_a_credential(live_hub, site, status):
    with GateProcess(live_hub, HUB_GATE_HOST="0.0.0.0") as gate:
        link = f"Authorization: {BASIC}", f"Sec-Fetch-Site: {site}", "Sec-Fetch-Mode: navigate"
        answered, problem = await raw(gate, ask("/", *link, host="gate", upgrade=False))
        assert (answered, problem.get("code")) == (status, "foreign" if status == 403 else None)
        if status == 403:
            for target, upgrade in ((CONNECT, True), (CONNECT + "/session/s9/url", False)):
                assert (await raw(gate, ask(target, *link, host="gate", upgrade=upgrade)))[0] == 403


async def test_an_open_hub_of_this_machine_is_served_to_programs_of_this_machine(start_hub):
    hub = start_hub(HUB_RUNNER_SECRET="", HUB_NODE_SECRET="", HUB_ADMIN_SECRET="")
    async with EchoSlot() as echo, node_of(hub, {"s1": echo.address}):
        with GateProcess(hub) as gate:
            async with gate.open(headers={"x-hub-secret": ""}) as socket:
                assert await said(socket, "x") == "x"
            for page in (ask(CONNECT, "Origin: http://evil.example"), ask(CONNECT, host="evil.example")):
                assert (await raw(gate, page))[0] == 403


def test_a_head_that_never_ends_is_cut(live_hub: HubProcess):
    with GateProcess(live_hub, HUB_REQUEST_HEADERS_TIMEOUT_SECONDS="5") as gate:
        with socket.create_connection(("127.0.0.1", gate.port), timeout=30) as slow:
            slow.sendall(b"GET /connect/a:b HTTP/1.1\r\nHost: ")
            assert slow.recv(1) == b""
        assert answers(gate.port, "/health")


def test_a_taken_port_and_a_wrong_setting_are_each_one_sentence(gate, live_hub):
    for wrong in ({"HUB_GATE_PORT": str(gate.port)}, {"HUB_GATE_IDLE_SECONDS": "often"}):
        second = GateProcess(live_hub, **wrong)
        wait_until(lambda second=second: second.process.poll() is not None)
        assert second.process.wait(1) == 1
        assert "Traceback" not in second.log()
        assert next(iter(wrong)) in second.log()
        second.kill()


async def test_over_tls_a_gate_serves_websockets_to_slots_over_tls(live_hub, tmp_path, slot):
    authority = Authority(tmp_path)
    pair = authority.issue("gate")
    context = ssl.create_default_context(cafile=str(authority.file))

    async def echo(socket):
        async for message in socket:
            await socket.send(message)

    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own.load_cert_chain(pair.cert, pair.key)
    tls = {"HUB_TLS_CERT": str(pair.cert), "HUB_TLS_KEY": str(pair.key), "HUB_CA_FILE": str(authority.file)}
    async with serve(echo, "127.0.0.1", 0, ssl=own) as server:
        address = f"wss://localhost:{server.sockets[0].getsockname()[1]}/"
        given = [{"slotId": "s2", "labelKey": "echo:tls", "webSocketEndpoint": address}]
        agent = NodeAgent("n2", slots=given, url=live_hub.url, secret=live_hub.node_secret)
        gate = GateProcess(live_hub, **tls)
        try:
            wait_until(lambda: answers(gate.port, "/health", over_tls=True), 60, gate.log)
            async with agent:
                for label in (LABEL, "echo:tls"):
                    url = f"wss://localhost:{gate.port}/connect/{label}"
                    headers = {"x-hub-secret": gate.secret}
                    async with connect(url, additional_headers=headers, ssl=context, proxy=None) as socket:
                        assert await said(socket, "hello") == "hello"
                await eventually(lambda: gate.log().count("gate connection ended") == 2)
                gate.signal(signal.SIGHUP)
                await eventually(lambda: "certificate loaded" in gate.log())
        finally:
            gate.kill()
    assert "WARN" not in gate.log()
    assert "ERROR" not in gate.log()

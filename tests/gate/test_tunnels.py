"""HTTP through the gate: a slot stays lent between the requests of one caller."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hub.client import NodeAgent
from tests.client.live import client_of
from tests.gate.gates import GateProcess
from tests.world import PATIENCE_S, HubProcess, eventually, free_port

LABEL = "driver:one"
BELOW = f"/connect/{LABEL}"

pytestmark = pytest.mark.slow


class Driver:
    """A server that speaks as much WebDriver as a gate has to know, and notes its requests."""

    def __init__(self, *, fails: bool = False, hangs: bool = False, repeats: bool = False) -> None:
        self.requests: list[tuple[str, str, bytes, dict[str, str]]] = []
        self.sessions = 0
        self.go_on = asyncio.Event()
        self._fails, self._hangs, self._repeats = fails, hangs, repeats
        self.app = Starlette(routes=[Route("/base/{path:path}", self._answer, methods=["GET", "POST", "DELETE"])])

    async def _answer(self, request: Request) -> Response:
        path = request.path_params["path"]
        self.requests.append((request.method, str(request.url.query), await request.body(), dict(request.headers)))
        if (request.method, path) == ("POST", "session"):
            if self._hangs:
                await self.go_on.wait()
            if self._fails:
                return JSONResponse({"value": {"error": "session not created"}}, 500)
            self.sessions = 1 if self._repeats else self.sessions + 1
            return JSONResponse({"value": {"sessionId": f"w{self.sessions}", "capabilities": {}}})
        if path.endswith("never"):
            await self.go_on.wait()
        return JSONResponse({"value": path}, headers={"x-of-slot": "yes", "set-cookie": "hub=slot"})


class Running:
    """A driver that serves, as the slots of a node."""

    def __init__(self, hub: HubProcess, driver: Driver, slots: int = 1, **facts: Any) -> None:
        port = free_port()
        config = uvicorn.Config(driver.app, port=port, log_config=None, lifespan="off", ws="none")
        self._server = uvicorn.Server(config)
        self._server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        given = [
            {"slotId": f"s{n}", "labelKey": LABEL, "endpoint": f"http://127.0.0.1:{port}/base", **facts}
            for n in range(slots)
        ]
        self._agent = NodeAgent("n1", slots=given, url=hub.url, secret=hub.node_secret)

    async def __aenter__(self) -> NodeAgent:
        self._task = asyncio.ensure_future(self._server._serve())
        await eventually(lambda: self._server.started)
        return await self._agent.__aenter__()

    async def __aexit__(self, *error: Any) -> None:
        await self._agent.__aexit__(*error)
        self._server.should_exit = self._server.force_exit = True
        await self._task


async def lent(hub: HubProcess) -> int:
    async with client_of(hub) as client:
        return int((await client.leases())["total"])


async def free(hub: HubProcess) -> bool:
    return await lent(hub) == 0


async def test_a_session_of_webdriver_keeps_its_slot_from_post_to_delete_without_cookies(live_hub, gate):
    driver = Driver()
    async with Running(live_hub, driver, slots=2), contextlib.AsyncExitStack() as held:
        first, second = [await held.enter_async_context(gate.http()) for _ in range(2)]
        made = (await first.post(f"{BELOW}/session", json={"capabilities": {}})).json()
        assert made["value"]["sessionId"] == "w1"
        assert (await second.post(f"{BELOW}/session?wait=1", json={})).json()["value"]["sessionId"] == "w2"
        assert await lent(live_hub) == 2
        answer = await first.get(f"{BELOW}/session/w1/url?x=%20y&token={gate.secret}")
        assert (answer.status_code, answer.json(), answer.headers["x-of-slot"]) == (
            200, {"value": "session/w1/url"}, "yes",
        )  # fmt: skip
        assert (await first.delete(f"{BELOW}/session/w1")).status_code == 200
        await eventually(lambda: _is(live_hub, 1))
        assert (await first.get(f"{BELOW}/session/w1/url")).status_code == 404
        assert (await second.get(f"{BELOW}/session/w2/url")).status_code == 200
        await second.delete(f"{BELOW}/session/w2")
        await eventually(lambda: free(live_hub))
    method, _, body, headers = driver.requests[0]
    assert (method, json.loads(body)) == ("POST", {"capabilities": {}})
    assert driver.requests[1][1] == "", "what is for the gate does not reach the slot"
    assert driver.requests[2][1] == "x=%20y"
    assert not {"x-hub-secret", "authorization", "cookie"} & headers.keys()
    assert headers["x-hub-lease-token"].isdecimal()


async def _is(hub: HubProcess, count: int) -> bool:
    return await lent(hub) == count


async def test_a_webdriver_session_counts_only_with_the_credential_and_label_that_began_it(live_hub, gate):
    driver = Driver()
    other_secret = {"x-hub-secret": "admin-s3"}
    async with Running(live_hub, driver), gate.http() as caller, gate.http(headers=other_secret) as other:
        await caller.post(f"{BELOW}/session", json={})
        assert (await caller.get(f"{BELOW}/session/w1/url")).status_code == 200
        assert (await other.get(f"{BELOW}/session/w1/url")).status_code == 404
        assert (await caller.get("/connect/driver:two/session/w1/url")).status_code == 404
    assert len(driver.requests) == 2


@pytest.mark.parametrize("path", ["status", "session", "session/w1", "sessions"])
async def test_only_the_post_of_a_session_borrows(live_hub, gate, path):
    driver = Driver()
    async with Running(live_hub, driver), gate.http() as caller:
        assert (await caller.get(f"{BELOW}/{path}")).status_code == 404
        assert (await lent(live_hub), driver.requests) == (0, [])


async def test_a_session_without_requests_ends_and_one_with_a_request_under_way_does_not(live_hub):
    driver = Driver()
    with GateProcess(live_hub, HUB_GATE_IDLE_SECONDS="3") as gate:
        async with Running(live_hub, driver), gate.http() as caller:
            await caller.post(f"{BELOW}/session", json={})
            slow = asyncio.ensure_future(caller.get(f"{BELOW}/session/w1/never"))
            await asyncio.wait([slow], timeout=4)  # longer than the idle time
            assert (slow.done(), await lent(live_hub)) == (False, 1)
            driver.go_on.set()
            assert (await slow).status_code == 200
            await eventually(lambda: free(live_hub))
            await eventually(lambda: "no request for 3 s" in gate.log())


async def test_a_caller_that_leaves_before_its_session_is_made_gives_the_slot_back(live_hub, gate):
    driver = Driver(hangs=True)
    async with Running(live_hub, driver):
        _, writer = await asyncio.open_connection("127.0.0.1", gate.port)
        head = f"POST {BELOW}/session HTTP/1.1\r\nHost: {gate.host}\r\nx-hub-secret: {gate.secret}\r\n"
        writer.write(f"{head}Content-Length: 2\r\n\r\n{{}}".encode())
        await eventually(lambda: driver.requests)
        assert await lent(live_hub) == 1
        writer.close()
        await eventually(lambda: free(live_hub))
        driver.go_on.set()


async def test_a_session_that_is_not_made_gives_the_slot_back(live_hub, gate):
    async with Running(live_hub, Driver(fails=True)), gate.http() as caller:
        assert (await caller.post(f"{BELOW}/session", json={})).status_code == 500
        await eventually(lambda: free(live_hub))


async def test_a_withdrawn_slot_ends_its_tunnel_with_the_reason(live_hub, gate):
    async with Running(live_hub, Driver()) as agent, gate.http() as caller:
        await caller.post(f"{BELOW}/session", json={})
        await agent.withdraw("s0", reason="the screen is broken")
        await eventually(lambda: "the screen is broken" in gate.log())
        assert (await caller.get(f"{BELOW}/session/w1/url")).status_code == 404


async def test_a_body_beyond_the_bound_is_refused_and_borrows_nothing(live_hub, gate):
    async with Running(live_hub, Driver()), gate.http() as caller:
        answer = await caller.post(f"{BELOW}/session", content=bytes(9 * 2**20))
        assert answer.status_code == 413
        assert await lent(live_hub) == 0


async def test_a_full_label_is_refused_with_the_document_of_the_queue(live_hub, gate):
    async with Running(live_hub, Driver()), gate.http() as caller, gate.http() as other:
        await caller.post(f"{BELOW}/session", json={})
        answer = await other.post(f"{BELOW}/session?wait=0.1", json={})
        assert (answer.status_code, answer.json()["code"]) == (503, "timeout")


async def test_an_answer_of_a_slot_is_no_page_of_the_hub_and_no_cookie_passes_in_either_direction(live_hub, gate):
    driver = Driver()
    async with Running(live_hub, driver), gate.http(headers={"cookie": "hub=mine"}) as caller:
        await caller.post(f"{BELOW}/session", json={})
        answer = await caller.get(f"{BELOW}/session/w1/page")
    assert (answer.status_code, answer.headers["x-of-slot"]) == (200, "yes")
    assert "sandbox" in answer.headers.get_list("content-security-policy")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "set-cookie" not in answer.headers
    assert ["cookie" in headers for *_, headers in driver.requests] == [False, False]


@pytest.mark.parametrize("name", ["token", "%74oken", "to%6ben"])
async def test_a_credential_in_the_query_reaches_no_slot_however_its_name_is_written(live_hub, gate, name):
    driver = Driver()
    async with Running(live_hub, driver), gate.http() as caller:
        await caller.post(f"{BELOW}/session", json={})
        reader, writer = await asyncio.open_connection("127.0.0.1", gate.port)
        target = f"{BELOW}/session/w1/url?{name}={gate.secret}&x=1"
        writer.write(f"GET {target} HTTP/1.1\r\nHost: {gate.host}\r\n\r\n".encode())
        assert b" 200 " in await reader.readuntil(b"\r\n")
        writer.close()
    assert [query for _, query, *_ in driver.requests] == ["", "x=1"]


async def test_a_session_with_the_id_of_another_one_is_refused_and_the_other_goes_on(live_hub, gate):
    async with Running(live_hub, Driver(repeats=True), slots=2), gate.http() as first, gate.http() as second:
        assert (await first.post(f"{BELOW}/session", json={})).json()["value"]["sessionId"] == "w1"
        refused = await second.post(f"{BELOW}/session", json={})
        assert (refused.status_code, refused.json()["code"]) == (502, "slot-unreachable")
        await eventually(lambda: _is(live_hub, 1))
        assert (await first.delete(f"{BELOW}/session/w1")).status_code == 200
        await eventually(lambda: free(live_hub))


def _begun(gate: GateProcess, secret: str) -> bytes:
    head = f"POST {BELOW}/session HTTP/1.1\r\nHost: {gate.host}\r\nx-hub-secret: {secret}\r\n"
    return f"{head}Content-Length: 1000000\r\n\r\n{{".encode()


async def test_a_stranger_is_refused_before_its_body_is_read(gate):
    reader, writer = await asyncio.open_connection("127.0.0.1", gate.port)
    writer.write(_begun(gate, "wrong"))  # and no more
    async with asyncio.timeout(PATIENCE_S):
        assert b" 401 " in await reader.readuntil(b"\r\n")
    writer.close()


async def test_a_caller_that_leaves_within_its_body_leaves_no_traceback(live_hub):
    async def status(expected: int) -> bool:
        async with gate.http() as other:
            return (await other.get("/")).status_code == expected

    with GateProcess(live_hub, HUB_GATE_CONNECTIONS="1") as gate:
        _, writer = await asyncio.open_connection("127.0.0.1", gate.port)
        writer.write(_begun(gate, gate.secret))
        await eventually(lambda: status(503))  # it counts
        writer.close()
        await eventually(lambda: status(200))  # it has gone
        gate.signal(signal.SIGTERM)
        assert gate.process.wait(30) == 0
        assert "Traceback" not in gate.log()
        assert "ERROR" not in gate.log()

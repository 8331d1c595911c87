"""How a node is set up, asked of the node itself through the hub."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from hub.capacity.nodes import asking
from tests.world import free_port


class Node(BaseHTTPRequestHandler):
    """A node's own HTTP endpoint; the first segment of the path says how it behaves."""

    def do_GET(self) -> None:
        how = self.path.split("/")[1]
        if how == "mute":
            self.server.let_go.wait(60)  # type: ignore[attr-defined]
            return
        status = {"fine": 200, "diagnostics": 200, "text": 200, "long": 200, "moved": 302}.get(how) or int(how)
        self.send_response(status)
        if how == "moved":
            self.send_header("location", "/fine/diagnostics/env")
        self.end_headers()
        secret = self.headers.get("x-hub-secret")
        body = {"text": "no JSON", "long": '"' + "x" * (1 << 20) + '"'}.get(how)
        self.wfile.write((body or f'{{"env": {{"A": "1"}}, "path": "{self.path}", "secret": "{secret}"}}').encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def node() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Node)
    server.let_go = threading.Event()  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.let_go.set()  # type: ignore[attr-defined]
    server.shutdown()
    server.server_close()


async def ask(api: httpx.AsyncClient, base_url: str | None, node_id: str = "n1") -> httpx.Response:
    answer = await api.post("/node/register", json={"nodeId": node_id, "baseUrl": base_url})
    assert answer.status_code == 200
    return await api.get(f"/diagnostics/worker-env/{node_id}")


async def test_the_environment_that_a_node_answers_is_passed_on_unchanged(api: httpx.AsyncClient, node: str) -> None:
    answer = await ask(api, f"{node}/fine/")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json() == {"env": {"A": "1"}, "path": "/fine/diagnostics/env", "secret": "None"}
    assert (await ask(api, node, "rack 7/blade:3")).json()["path"] == "/diagnostics/env"


async def test_the_hub_shows_the_node_secret_to_the_node_it_asks(make_api: Any, node: str) -> None:
    async with make_api(node_secret="one, two", runner_secret="r", admin_secret="r") as api:
        await api.post("/node/register", json={"nodeId": "n1", "baseUrl": node}, headers={"x-hub-secret": "two"})
        assert (await api.get("/diagnostics/worker-env/n1")).status_code == 401
        answer = await api.get("/diagnostics/worker-env/n1", headers={"x-hub-secret": "r"})
        assert answer.json()["secret"] == "one"


@pytest.mark.parametrize(
    ("how", "status", "code"),
    [
        ("401", 401, "node-refused"), ("404", 404, "node-refused"), ("503", 503, "node-refused"),
        ("599", 500, "node-refused"),
        ("moved", 500, "node-refused"), ("text", 500, "node-silent"), ("long", 500, "node-silent"),
    ],
)  # fmt: skip
async def test_the_refusal_of_a_node_is_passed_on_with_its_status(
    api: httpx.AsyncClient, node: str, how: str, status: int, code: str
) -> None:
    answer = await ask(api, f"{node}/{how}")
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert (answer.json()["code"], answer.json()["status"]) == (code, status)
    assert "n1" in answer.json()["detail"]


async def test_a_node_that_does_not_answer_is_given_up_after_the_limit(
    api: httpx.AsyncClient, node: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert asking.ANSWER_S == 5  # as the contract says; what follows shows that this is the limit
    monkeypatch.setattr(asking, "ANSWER_S", 0.3)
    started = time.monotonic()
    answer = await ask(api, f"{node}/mute")
    assert (answer.status_code, answer.json()["code"]) == (500, "node-silent")
    assert time.monotonic() - started < 30
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("base_url", [None, "nonsense", "ftp://127.0.0.1/", "http://[", "http://127.0.0.1:99999"])
async def test_an_unreachable_node_is_answered_as_silent(
    api: httpx.AsyncClient, base_url: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await ask(api, base_url or f"http://127.0.0.1:{free_port()}")
    assert (answer.status_code, answer.json()["code"]) == (500, "node-silent")
    assert "Traceback" not in caplog.text


async def test_only_registered_nodes_are_asked_for_their_environment(api: httpx.AsyncClient) -> None:
    answer = await api.get("/diagnostics/worker-env/nobody")
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown-node")

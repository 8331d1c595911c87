"""Web pages and names of others: a browser on the hub's machine does what any page tells it to."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import socket
import subprocess
from contextlib import nullcontext

import pytest

from hub.api.app import TABLE
from hub.api.handling.browsers import Gate, NotJson
from hub.errors import BadInput, Foreign
from hub.settings import Settings
from tests.api.wires import Wire
from tests.world import PATIENCE_S, HubProcess

NO_SECRETS = {"HUB_RUNNER_SECRET": "", "HUB_NODE_SECRET": "", "HUB_ADMIN_SECRET": ""}
HOST = "127.0.0.1:8080"
EVIL = "http://evil.example"
JSON = {"content-type": "application/json"}
FORM = {"content-type": "application/x-www-form-urlencoded"}
OPEN = Settings()
CLOSED = Settings(runner_secret="r", node_secret="n")
LISTED = Settings(allowed_hosts=("hub.example",), allowed_origins=("https://console.example", "http://localhost:3001"))
DOTTED = LISTED.model_copy(update={"allowed_hosts": ("hub.example.",)})
LISTED_CLOSED = CLOSED.model_copy(update={"allowed_hosts": ("hub.example",)})
BROWSER = {"user-agent": "Mozilla/5.0 (X11; Linux x86_64)"}
LINK = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}

RULES = [
    # What is no browser says nothing but a Host.
    (OPEN, "POST", "/session/borrow", {}, None),
    (OPEN, "POST", "/session/borrow", FORM, None),
    (OPEN, "POST", "/session/borrow", {"content-type": "text/plain", "user-agent": "curl/8.5.0"}, None),
    (OPEN, "POST", "/session/borrow", {"host": None}, None),
    # Names: an attacker's name may point at 127.0.0.1, and the browser still sends it.
    *((OPEN, method, "/nodes", {"host": "evil.example"}, Foreign) for method in ("GET", "HEAD", "POST", "DELETE")),
    (OPEN, "GET", "/nodes", {"host": "evil.example:8080"}, Foreign),
    (OPEN, "GET", "/nodes", {"host": "127.0.0.1.evil.example"}, Foreign),
    (OPEN, "GET", "/nodes", {"host": "localhost.evil.example"}, Foreign),
    (OPEN, "GET", "/nodes", {"host": "192.168.1.5:8080"}, Foreign),
    (OPEN, "GET", "/nodes", {"host": "0.0.0.0:8080"}, Foreign),
    *(
        (OPEN, "GET", "/nodes", {"host": host}, None)
        for host in ("localhost", "LOCALHOST:80", "127.0.0.1", "127.8.9.1:1", "[::1]:8080", "hub.localhost:8080")
    ),
    *(
        (settings, "GET", "/nodes", {"host": host}, BadInput)
        for settings in (OPEN, CLOSED)
        for host in ("", "a b", "a/b", "localhost:x", "user@localhost", "[::1", "\xff", "localhost:8080:1")
    ),
    (LISTED, "GET", "/nodes", {"host": "hub.example:8080"}, None),
    (LISTED, "GET", "/nodes", {"host": "other.example"}, Foreign),
    # A dot at its end changes nothing about a name, in the list as in the call.
    (LISTED, "GET", "/nodes", {"host": "hub.example.:8080"}, None),
    (DOTTED, "GET", "/nodes", {"host": "hub.example"}, None),
    (DOTTED, "GET", "/nodes", {"host": "HUB.example."}, None),
    (DOTTED, "GET", "/nodes", {"host": "hub.example.."}, Foreign),
    (OPEN, "GET", "/nodes", {"host": "localhost.:8080"}, None),
    (OPEN, "GET", "/nodes", {"host": "evil.example."}, Foreign),
    (CLOSED, "GET", "/nodes", {"host": "anything.example"}, None),
    (LISTED_CLOSED, "GET", "/nodes", {"host": "anything.example"}, Foreign),
    (LISTED_CLOSED, "GET", "/nodes", {"host": "hub.example"}, None),
    (LISTED_CLOSED, "GET", "/health/live", {"host": "10.1.2.3:8080"}, None),
    # Pages.
    (OPEN, "POST", "/session/borrow", {"origin": EVIL, **JSON}, Foreign),
    (OPEN, "GET", "/nodes", {"origin": EVIL}, Foreign),
    (OPEN, "GET", "/nodes", {"origin": "null"}, Foreign),
    (OPEN, "GET", "/nodes", {"origin": "http://127.0.0.1:9090"}, Foreign),
    (OPEN, "GET", "/nodes", {"origin": "http://localhost:8080"}, Foreign),
    (OPEN, "GET", "/nodes", {"sec-fetch-site": "cross-site"}, Foreign),
    (OPEN, "GET", "/nodes", {"sec-fetch-site": "same-site"}, Foreign),
    (OPEN, "GET", "/nodes", {"sec-fetch-site": "anything else"}, Foreign),
    (OPEN, "GET", "/nodes", {"origin": f"http://{HOST}", "sec-fetch-site": "cross-site"}, Foreign),
    (OPEN, "GET", "/nodes", {"sec-fetch-site": "none"}, None),
    (OPEN, "GET", "/nodes", {"sec-fetch-site": "same-origin"}, None),
    (OPEN, "POST", "/admin/sweep", {"origin": f"http://{HOST}", "sec-fetch-site": "same-origin", **JSON}, None),
    (OPEN, "POST", "/admin/sweep", {"origin": f"http://{HOST}"}, None),
    (OPEN, "POST", "/admin/sweep", {"origin": "http://localhost", "host": "localhost:80"}, None),
    (LISTED, "POST", "/admin/sweep", {"origin": "https://console.example:443", **JSON}, None),
    (LISTED, "POST", "/admin/sweep", {"origin": "http://console.example", **JSON}, Foreign),
    (LISTED, "GET", "/nodes", {"origin": "http://localhost:3001", "sec-fetch-site": "same-site"}, None),
    # Links may be followed to pages, and to nothing else.
    (OPEN, "GET", "/docs", LINK, None),
    (OPEN, "GET", "/nodes", LINK, Foreign),
    (OPEN, "POST", "/", LINK, Foreign),
    (OPEN, "GET", "/docs", {**LINK, "sec-fetch-dest": "iframe"}, Foreign),
    # A browser asks first before it sends JSON elsewhere, so nothing else is taken from one.
    *(
        (OPEN, "POST", "/session/borrow", {**sign, "content-type": kind}, NotJson)
        for sign in (BROWSER, {"referer": "http://x/"}, {"cookie": "a=b"}, {"origin": f"http://{HOST}"})
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/json")
    ),
    (OPEN, "POST", "/session/borrow", BROWSER, NotJson),
    (OPEN, "POST", "/session/borrow", {**BROWSER, **JSON}, None),
    (OPEN, "POST", "/session/borrow", {**BROWSER, "content-type": "application/merge-patch+json; charset=utf-8"}, None),
    # With secrets, where a cookie could speak for the page.
    (CLOSED, "POST", "/admin/sweep", {"origin": EVIL, "cookie": "session=1", **JSON}, Foreign),
    (CLOSED, "POST", "/admin/sweep", {"sec-fetch-site": "same-site", "cookie": "session=1", **JSON}, Foreign),
    (CLOSED, "POST", "/admin/sweep", {"cookie": "session=1", **FORM}, NotJson),
    (CLOSED, "POST", "/admin/sweep", {"cookie": "session=1", "x-hub-secret": "r", **FORM}, None),
    (CLOSED, "POST", "/admin/sweep", {"origin": f"https://{HOST}", "cookie": "session=1", **JSON}, None),
    (CLOSED, "POST", "/admin/sweep", {"origin": EVIL, "x-hub-secret": "r"}, None),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "method", "path", "headers", "refusal"), RULES, ids=str)
def test_the_gate_refuses_requests_of_foreign_pages_and_hosts(settings, method, path, headers, refusal):
    sent = {"host": HOST, **headers}
    raw = [(name.encode(), value.encode("latin-1")) for name, value in sent.items() if value is not None]
    gate = Gate(settings)
    for _ in range(2):  # the second check uses what the gate remembered of the first
        asking = nullcontext() if refusal is None else pytest.raises(refusal, match=r"\.$")
        with asking:
            row = TABLE.find("GET" if method == "HEAD" else method, path).row
            gate.check({"type": "http", "method": method, "path": path, "headers": raw}, row)


@pytest.fixture(scope="module")
def lax(_server):
    """A hub without secrets."""
    settings = {"HUB_KEY_PREFIX": "lax:", "HUB_NODE_TIMEOUT": "600", **NO_SECRETS}
    with HubProcess({"HUB_REDIS_URL": _server.url, **settings}) as process:
        yield process


def post(path, body=b"{}", **headers):
    lines = [f"POST {path} HTTP/1.1", f"content-length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


ROADS = {
    "the short way of heartbeats": ("/node/heartbeat", b'{"nodeId":"n1"}'),
    "heartbeats by the alias": ("/api/v1/node/heartbeat", b'{"nodeId":"n1"}'),
    "found by its path": ("/session/borrow", b'{"labelKey":"a:b"}'),
    "routed": ("/node/register", b'{"nodeId":"n1"}'),
    "an admin's": ("/admin/sweep", b"{}"),
    "tokens": ("/admin/tokens", b'{"user":"eve","hash":"' + b"0" * 64 + b'"}'),
    "jobs": ("/v1/joblib/workers", b"{}"),
    "jobs, the short way": ("/v1/joblib/tasks/claim", b"{}"),
}


@pytest.mark.parametrize(("path", "body"), ROADS.values(), ids=ROADS)
def test_every_path_to_an_endpoint_passes_the_browser_gate(lax, path, body):
    own = f"127.0.0.1:{lax.port}"
    before = {key: lax.redis.type(key) for key in lax.redis.keys("lax:*")}
    wrong = [
        {"host": "evil.example"},
        {"host": own, "origin": EVIL, **JSON_},
        {"host": own, "origin": EVIL, "content_type": "text/plain", "sec_fetch_site": "cross-site"},
        {"host": own, "sec_fetch_site": "cross-site", **JSON_},
        {"host": own, "user_agent": "Mozilla/5.0", "content_type": "text/plain"},
    ]
    with Wire(lax.port) as wire:
        for headers in wrong:
            wire.send(post(path, body, **headers))
            status, said = wire.answer()
            assert status == (415 if "user_agent" in headers else 403), headers
            assert said["detail"].endswith("."), headers
        # Each alone, and behind one that is all right, in one piece: nothing of that one counts for it.
        wire.send(post("/node/heartbeat", b'{"nodeId":"n1"}', host=own) + post(path, body, **wrong[0]))
        assert [wire.answer()[0] for _ in range(2)] == [200, 403]
        wire.send(post(path, body, **wrong[1]) + post("/node/heartbeat", b'{"nodeId":"n1"}', host=own))
        assert [wire.answer()[0] for _ in range(2)] == [403, 200]
    assert {key: lax.redis.type(key) for key in lax.redis.keys("lax:*")} == before


JSON_ = {"content_type": "application/json"}
CONNECT = "GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\n"
UPGRADE = (
    "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
    "sec-websocket-key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"
)


@pytest.mark.parametrize(
    "headers",
    [f"host: evil.example\r\norigin: {EVIL}\r\n", f"host: localhost\r\norigin: {EVIL}\r\n"],
    ids=["a name of somebody else", "a page of somebody else"],
)
def test_a_page_of_another_site_cannot_open_a_socket(lax, headers):
    with socket.create_connection(("127.0.0.1", lax.port), timeout=PATIENCE_S) as wire:
        wire.sendall(f"{CONNECT}{headers}{UPGRADE}".encode())
        assert re.match(rb"HTTP/1.1 403 ", wire.recv(65536))
    with Wire(lax.port) as wire:
        wire.send(f"GET /socket.io/?EIO=4&transport=polling HTTP/1.1\r\n{headers}\r\n".encode())
        assert wire.answer()[0] == 403


def test_a_page_of_the_hub_may_open_a_socket(lax):
    with socket.create_connection(("127.0.0.1", lax.port), timeout=PATIENCE_S) as wire:
        own = f"127.0.0.1:{lax.port}"
        wire.sendall(f"{CONNECT}host: {own}\r\norigin: http://{own}\r\n{UPGRADE}".encode())
        assert re.match(rb"HTTP/1.1 101 ", wire.recv(65536))


@pytest.mark.parametrize("first", ["127.0.0.1", "evil.example"])
def test_a_request_with_two_host_headers_is_refused(lax, live_hub, first):
    for hub in (lax, live_hub):
        with Wire(hub.port) as wire:
            body = b'{"nodeId":"n1"}'
            for path in ("/node/heartbeat", "/node/register"):
                head = f"POST {path} HTTP/1.1\r\nhost: {first}\r\nx-hub-secret: {hub.node_secret}\r\n"
                wire.send(f"{head}host: 127.0.0.1\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
                status, said = wire.answer()
                assert (status, "Host" in said["detail"]) == (400, True)


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_the_commands_of_the_readme_work_as_written(lax):
    for more in ([], ["--http2"]):
        borrow = ["curl", "-s", *more, f"{lax.url}/session/borrow", "-d", '{"labelKey": "a:b", "maxWaitSeconds": 0.01}']
        while (code := json.loads(subprocess.check_output(borrow, timeout=PATIENCE_S))["code"]) == "settling":
            pass  # its store has just been emptied
        assert code == "timeout"
        assert subprocess.run(["curl", "-sf", *more, f"{lax.url}/pools"], capture_output=True, check=True).stdout


def test_hosts_and_origins_in_the_settings_are_let_in(start_hub):
    hub = start_hub(HUB_ALLOWED_HOSTS="hub.example", HUB_ALLOWED_ORIGINS="https://console.example", **NO_SECRETS)
    connection = http.client.HTTPConnection("127.0.0.1", hub.port, timeout=PATIENCE_S)
    for host, origin, status in (
        ("hub.example", "https://console.example", 200),
        ("hub.example", EVIL, 403),
        ("other.example", "https://console.example", 403),
    ):
        connection.request("GET", "/nodes", headers={"host": host, "origin": origin})
        answer = connection.getresponse()
        answer.read()
        assert answer.status == status, (host, origin)
    connection.close()

"""How long a client can make the hub wait, and what a request may contain, on raw sockets."""

from __future__ import annotations

import contextlib
import json
import socket
import time

import pytest

from tests.api.wires import Wire
from tests.world import PATIENCE_S, SLACK_S, HubProcess, wait_until

BEAT = b'{"nodeId":"n1"}'
BOUND_S = 5  # the least the settings accept, for heads, whole requests and idle connections


def request(body=BEAT, path="/node/heartbeat", more="", secret="node-s3", method="POST"):
    length = f"content-length: {len(body)}\r\n" if body is not None else ""
    head = f"{method} {path} HTTP/1.1\r\nhost: hub\r\nx-hub-secret: {secret}\r\n{length}{more}\r\n"
    return head.encode() + (body or b"")


@pytest.fixture(scope="module")
def hub(_server):
    limits = ("REQUEST_HEADERS_TIMEOUT", "REQUEST_TIMEOUT", "KEEP_ALIVE_TIMEOUT")
    settings = {f"HUB_{limit}_SECONDS": str(BOUND_S) for limit in limits}
    settings |= {"HUB_REDIS_URL": _server.url, "HUB_KEY_PREFIX": "bounds:", "HUB_NODE_TIMEOUT": "600"}
    with HubProcess(settings) as process:
        with Wire(process.port) as wire:
            wire.send(request(path="/node/register"))
            assert wire.answer()[0] == 200
        yield process


@pytest.fixture
def wire(hub):
    with Wire(hub.port) as made:
        yield made


H2C = "connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n"
OFFERS = {
    "HTTP/2": H2C,
    "HTTP/2, kept alive": H2C.replace("connection: ", "connection: keep-alive, "),
    "in two headers": "connection: keep-alive\r\nconnection: upgrade\r\nupgrade: h2c\r\n",
    "TLS": "connection: upgrade\r\nupgrade: TLS/1.0\r\n",
    "a WebSocket where there is none": "connection: upgrade\r\nupgrade: websocket\r\n",
}


@pytest.mark.parametrize("path", ["/node/heartbeat", "/node/heartbeats", "/node/register"])
@pytest.mark.parametrize("pieces", [1, 2, 3], ids="in {} pieces".format)
@pytest.mark.parametrize("offer", OFFERS.values(), ids=OFFERS)
def test_a_request_to_upgrade_the_protocol_is_answered_as_plain_http_1_1(wire, offer, pieces, path):
    # The body is itself a valid request, which a confused parser would carry out.
    inner = request(b'{"nodeId":"smuggled"}', "/node/register")
    body = {"/node/heartbeats": {"beats": [{"nodeId": "n1"}]}}.get(path, {"nodeId": "n1"})
    text = json.dumps({**body, "x": 1}).encode() + b" " * 10
    whole = request(text, path, offer)
    cuts = [0, len(whole) - len(text), len(whole) - 5][:pieces]
    for start, end in zip(cuts, [*cuts[1:], len(whole)], strict=True):
        wire.send(whole[start:end])
        time.sleep(0.01)  # so that they do not travel together
    assert wire.answer()[0] == 200
    wire.send(request(inner, "/node/register", offer))
    assert wire.answer()[1]["code"] == "invalid-json"
    wire.send(request())
    assert wire.answer()[1]["nodeId"] == "n1"


def test_pipelined_upgrade_requests_are_answered_in_order(wire):
    beats = [request(f'{{"nodeId":"n{n}"}}'.encode(), more=H2C if n % 2 else "") for n in range(100)]
    wire.send(b"".join(beats))
    assert [wire.answer()[1]["nodeId"] for _ in beats] == [f"n{n}" for n in range(100)]


def test_a_chunked_body_of_an_upgrade_request_is_read_as_a_body(wire):
    head = request(None, more=H2C + "transfer-encoding: chunked\r\n")
    wire.send(head + b"5\r\n" + BEAT[:5] + b"\r\na\r\n" + BEAT[5:] + b"\r\n0\r\n\r\n" + request())
    assert [wire.answer()[0] for _ in range(2)] == [200, 200]


def test_a_connect_request_is_refused_and_opens_no_tunnel(wire):
    wire.send(b"CONNECT example.org:443 HTTP/1.1\r\nhost: example.org\r\n\r\n" + request())
    assert wire.answer()[0] in (400, 405)
    with contextlib.suppress(ConnectionError):
        assert wire.answer() is None


@pytest.mark.parametrize("pause", [1, 20, 100])
@pytest.mark.parametrize("size", [33_000, 60_000])
def test_a_head_may_come_in_two_pieces_with_a_large_body_behind_it(wire, size, pause):
    body = b'{"nodeId":"n1","x":"' + b"y" * size + b'"}'
    whole = request(body, "/node/register")
    wire.send(whole[:pause])
    time.sleep(0.05)
    wire.send(whole[pause:])
    assert wire.answer()[0] == 200


def test_bytes_after_a_body_are_not_read_as_a_header(wire):
    head = request(None, secret="", more="transfer-encoding: chunked\r\n")
    wire.send(head + b"f\r\n" + BEAT + b"\r\n0\r\nx-hub-secret: node-s3\r\nhost: other\r\n\r\n")
    assert wire.answer()[0] == 401


def test_bytes_after_a_chunked_body_are_bounded(wire):
    wire.send(request(None, more="transfer-encoding: chunked\r\n") + b"f\r\n" + BEAT + b"\r\n0\r\nx: ")
    with contextlib.suppress(ConnectionError):
        for _ in range(1000):
            wire.send(b"y" * 100_000)
        pytest.fail("a hundred megabytes were taken")


def test_too_many_pipelined_requests_are_refused(wire):
    with contextlib.suppress(ConnectionError):
        wire.send(request(path="/node/register") * 5_000)
        while found := wire.answer():
            pass
        assert found is None


def drip(wire, data, seconds):
    """Send a byte every now and then until the connection is gone; fails when that takes longer."""
    until = time.monotonic() + seconds
    wire.socket.settimeout(0.3)
    with contextlib.suppress(ConnectionError):
        while True:
            assert time.monotonic() < until, "the connection is still there"
            wire.send(data)
            with contextlib.suppress(TimeoutError):
                while wire.socket.recv(65536):
                    pass
                return


HELD = {
    "after a refusal": (request(b'{"nodeId":' + b" " * 60_000, secret="wrong")[:-50_000], b" "),
    "after a refusal, chunked": (request(None, secret="wrong", more="transfer-encoding: chunked\r\n"), b"1\r\nx\r\n"),
    "after an answer that needs no body": (request(b" " * 60_000, "/nodes", method="GET")[:-50_000], b" "),
    "after a body that was too long": (request(b" " * 70_000)[:-60_000], b" "),
    "after a request that took too long": (request()[:-10], b" "),
    "with empty lines between requests": (request(), b"\r\n"),
    "with nothing but empty lines": (b"", b"\r\n"),
    "with a head that grows": (b"GET / HTTP/1.1\r\n", b"x: y\r\n"),
    "after an answer, with a head that grows": (request() + b"GET / HTTP/1.1\r\n", b"x: y\r\n"),
    "with a trailer that grows": (
        request(None, more="transfer-encoding: chunked\r\n") + b"f\r\n" + BEAT + b"\r\n0\r\n", b"x: y\r\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("first", "byte"), HELD.values(), ids=HELD)
def test_every_connection_is_closed_after_a_limited_time(wire, first, byte):
    wire.send(first)
    # The bound of a request, of what follows it and of an idle connection; the last two are looked at now and then.
    drip(wire, byte, 3 * BOUND_S + SLACK_S + PATIENCE_S / 2)


def test_a_client_that_sends_the_rest_of_a_refused_body_keeps_its_connection(wire):
    body = b" " * 60_000
    whole = request(body, secret="wrong")
    wire.send(whole[:-50_000])
    assert wire.answer()[0] == 401
    wire.send(whole[-50_000:] + request())
    assert wire.answer()[0] == 200


@pytest.mark.parametrize("many", [1, 1000])
def test_a_client_that_does_not_read_its_answer_is_cut_off(hub, many):
    with socket.socket() as wire:
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        wire.settimeout(PATIENCE_S)
        wire.connect(("127.0.0.1", hub.port))
        large = request(None, "/openapi.json", method="GET")
        until = time.monotonic() + 4 * BOUND_S + PATIENCE_S
        with contextlib.suppress(ConnectionError):
            wire.sendall(large * many)
            while time.monotonic() < until:
                wire.sendall(b"\r\n")
                time.sleep(0.2)
            pytest.fail("the connection is still there")


@pytest.mark.parametrize(
    "path", ["/nodes", "/health", "/health/live", "/openapi.json", "/v1/joblib/workers", "/events"]
)
def test_head_is_answered_like_get_without_the_body(wire, path):
    wire.send(request(None, path, method="HEAD", secret="admin-s3"))
    status, head = wire.answer(head_only=True)
    assert status == 200
    wire.send(request())
    assert wire.answer()[0] == 200
    assert b"content-length: 0" not in head


def test_one_address_cannot_take_all_connections(start_hub):
    hub = start_hub(HUB_NODE_TIMEOUT="600", HUB_CONNECTIONS_PER_ADDRESS="40")
    with Wire(hub.port) as busy:
        busy.send(request(b'{"labelKey":"no:slot"}', "/session/borrow", secret="runner-s3"))
        wait_until(lambda: hub.redis.zcard("hub:turns") == 1)
        with contextlib.ExitStack() as stack:
            idle = [stack.enter_context(Wire(hub.port)) for _ in range(100)]
            for wire in idle:
                with contextlib.suppress(ConnectionError):
                    wire.send(b"POST /node/heartbeat HTTP/1.1\r\nx: ")
            for _ in range(50):
                with Wire(hub.port) as wire:
                    wire.send(request(path="/node/register"))
                    assert wire.answer()[0] == 200
        assert "too many connections from one address" in hub.log()
        busy.socket.settimeout(0.2)
        with pytest.raises(TimeoutError):  # what is being served is not cut off
            busy.answer()


def test_a_hub_short_of_file_descriptors_logs_that_and_goes_on_serving(start_hub):
    few = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))"
    hub = start_hub(before=few, HUB_NODE_TIMEOUT="600")
    refused = request(b" " * 60_000, "/nodes", secret="wrong")[:-50_000]
    with contextlib.ExitStack() as stack:
        for number in range(300):
            source = (f"127.0.0.{2 + number % 4}", 0)
            held = socket.create_connection(("127.0.0.1", hub.port), PATIENCE_S, source)
            stack.enter_context(held).sendall(refused)
        with Wire(hub.port) as wire:
            wire.send(request(path="/node/register") + request())
            assert [wire.answer()[0] for _ in range(2)] == [200, 200]
    assert "file descriptors running short" in hub.log()

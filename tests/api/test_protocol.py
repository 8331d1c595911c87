"""HTTP/1.1 as the hub speaks it, on raw sockets against a real process."""

import contextlib
import json
import signal
import threading
import time

import pytest

from tests.api.wires import Wire
from tests.world import PATIENCE_S, HubProcess

BEAT = b'{"nodeId":"n1"}'
TIMEOUT_S = 5  # the least the settings accept, for heads and for whole requests


def request(body=BEAT, path="/node/heartbeat", more="", secret="node-s3"):
    head = f"POST {path} HTTP/1.1\r\nhost: hub\r\nx-hub-secret: {secret}\r\ncontent-length: {len(body)}\r\n{more}\r\n"
    return head.encode() + body


@pytest.fixture(scope="module")
def hub(_server):
    settings = {f"HUB_{limit}_SECONDS": str(TIMEOUT_S) for limit in ("REQUEST_HEADERS_TIMEOUT", "REQUEST_TIMEOUT")}
    settings |= {"HUB_REDIS_URL": _server.url, "HUB_KEY_PREFIX": "protocol:", "HUB_NODE_TIMEOUT": "600"}
    with HubProcess(settings) as process:
        yield process


@pytest.fixture
def connect(hub):
    with contextlib.ExitStack() as stack:

        def make():
            wire = Wire(hub.port)
            stack.callback(wire.socket.close)
            return wire

        wire = make()
        wire.send(request(path="/node/register"))
        assert wire.answer()[0] == 200
        yield make


def test_one_connection_serves_one_heartbeat_after_the_other(connect):
    wire = connect()
    for _ in range(3):
        wire.send(request())
        status, said = wire.answer()
        assert (status, said["known"]) == (200, True)


def test_a_heartbeat_may_be_split_into_any_two_pieces(connect):
    whole = request()
    for cut in range(1, len(whole), 7):
        wire = connect()
        wire.send(whole[:cut])
        time.sleep(0.005)  # so that they do not travel together
        wire.send(whole[cut:])
        assert wire.answer()[0] == 200, cut


def test_pipelined_requests_are_answered_in_order(connect):
    wire = connect()
    beats = [request(json.dumps({"nodeId": f"n{n}"}).encode()) for n in range(1, 9)]
    wire.send(b"".join([*beats, request(b"x"), request(b"{}", "/session/borrow"), request()]))
    assert [wire.answer()[1]["nodeId"] for _ in beats] == [f"n{n}" for n in range(1, 9)]
    assert [wire.answer()[0] for _ in range(3)] == [400, 401, 200]


@pytest.mark.parametrize(
    ("body", "secret", "status", "code"),
    [
        (b"", "node-s3", 400, "invalid-json"),
        (b"[]", "node-s3", 400, "invalid-json"),
        (b"{}", "node-s3", 400, "missing-member"),
        (b'{"nodeId":1e999}', "node-s3", 400, "invalid-json"),
        (b"x" * 65_537, "node-s3", 413, "too-large"),
        (BEAT, "wrong", 401, "unauthorized"),
        (BEAT, "", 401, "unauthorized"),
    ],
)
def test_an_invalid_heartbeat_is_refused_like_any_other_request(connect, body, secret, status, code):
    wire = connect()
    wire.send(request(body, secret=secret))
    found = wire.answer()
    assert (found[0], found[1]["code"]) == (status, code)


def test_a_connection_with_close_is_closed_after_the_answer(connect):
    wire = connect()
    wire.send(request(more="connection: close\r\n"))
    assert wire.answer()[0] == 200
    assert wire.answer() is None


def test_a_client_that_expects_100_continue_gets_it(connect):
    wire = connect()
    wire.send(request(more="expect: 100-continue\r\n")[: -len(BEAT)])
    assert wire.socket.recv(100).startswith(b"HTTP/1.1 100")
    wire.send(BEAT)
    assert wire.answer()[0] == 200


def test_a_heartbeat_with_a_chunked_body_is_accepted(connect):
    wire = connect()
    head = b"POST /node/heartbeat HTTP/1.1\r\nhost: h\r\nx-hub-secret: node-s3\r\ntransfer-encoding: chunked\r\n\r\n"
    wire.send(head + b'5\r\n{"nod\r\na\r\neId":"n1"}\r\n0\r\n\r\n')
    assert wire.answer()[0] == 200


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nx: " + b"a" * 40_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 10_000 + b"\r\n",
        b"GET / HTTP/1.1\r\nx: " + b"a" * 400_000,
        b"nonsense\r\n\r\n",
    ],
    ids=["one long header", "many headers", "never ends", "not HTTP"],
)
def test_a_too_long_or_broken_head_is_refused_and_the_connection_closed(connect, head):
    wire = connect()
    # The hub may close while the rest is still being sent; then the answer is lost with the connection.
    with contextlib.suppress(ConnectionError):
        wire.send(head)
        found = wire.answer()
        assert (found[0], found[1]["code"]) == (400, "bad-request")
    with contextlib.suppress(ConnectionError):
        assert wire.answer() is None


def test_a_head_that_does_not_arrive_in_time_is_cut_off(connect):
    wire = connect()
    wire.send(request())
    assert wire.answer()[0] == 200
    wire.send(b"POST /node/heartbeat HTT")
    assert wire.answer() is None


def test_a_body_that_does_not_arrive_in_time_is_refused(connect):
    wire = connect()
    wire.send(request()[:-3])
    found = wire.answer()
    assert (found[0], found[1]["code"]) == (408, "request-timeout")


def test_a_stopping_hub_closes_connections_that_beat_without_pause(start_hub):
    hub = start_hub(HUB_NODE_TIMEOUT="600")
    answers, began = [], threading.Barrier(9)

    def beat_for_ever():
        wire = Wire(hub.port)
        with contextlib.closing(wire.socket), contextlib.suppress(ConnectionError):
            wire.send(request())
            wire.answer()
            began.wait()
            while found := (wire.send(request()), wire.answer())[1]:
                answers.append(found[0])

    threads = [threading.Thread(target=beat_for_ever) for _ in range(8)]
    for thread in threads:
        thread.start()
    began.wait()
    hub.signal(signal.SIGTERM)
    assert hub.process.wait(10) == 0  # it lingers for 1 s; connections that were kept would cost it 10 s more
    for thread in threads:
        thread.join()
    assert set(answers) == {200}


TO_A_SOCKET = (
    "host: a\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
    "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)


@pytest.mark.parametrize(
    ("method", "more"),
    [
        ("GET", "content-length: 1\r\n\r\nx"), ("GET", "transfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
        ("POST", "content-length: 1\r\n\r\nx"),
        ("GET", "".join(f"x-{n}: y\r\n" for n in range(200)) + "\r\n"), ("GET", f"x: {'y' * 9000}\r\n\r\n"),
    ],
    ids=["a body", "chunks", "POST with a body", "too many headers", "a header too long"],
)  # fmt: skip
def test_an_invalid_websocket_handshake_is_refused_and_its_connection_closed(method, more, start_hub):
    hub = start_hub()
    with Wire(hub.port) as wire, Wire(hub.port) as idle:
        wire.send(f"{method} /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\n{TO_A_SOCKET}{more}".encode())
        status, problem = wire.answer()
        assert (status, problem["status"]) == (400, 400), problem
        assert wire.answer() is None
        idle.send(b"GET /health HTTP/1.1\r\nhost: a\r\n\r\n")
        assert idle.answer()[0] == 200
    hub.signal(signal.SIGTERM)
    assert hub.process.wait(PATIENCE_S) in (0, -signal.SIGTERM)
    assert "Traceback" not in hub.log()


@pytest.mark.parametrize(
    "head",
    [
        b"GET /health HTTP/1.1\r\nx: " + b"y" * 40_000 + b"\r\n\r\n", b"GET /" + b"y" * 40_000 + b" HTTP/1.1\r\n\r\n",
        b"GET http://evil.example HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET http://evil.example:99999/ HTTP/1.1\r\nhost: a\r\n\r\n",
    ],
    ids=["a long header", "a long path", "a whole address", "a port that there is not"],
)  # fmt: skip
def test_a_refused_head_logs_no_error(head, hub):
    before = hub.log().count("AttributeError")
    with Wire(hub.port) as wire:
        wire.send(head)
        assert wire.answer()[0] == 400
        assert wire.answer() is None
    assert hub.log().count("AttributeError") == before

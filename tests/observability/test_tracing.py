"""Traces: off unless they are asked for; then a span per request and per sweep, and what waits linked to what runs."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import socketserver
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from hub.errors import StartRefused
from hub.observability.tracing import wanted
from tests.observability.collector import Collector
from tests.socket_client import SocketClient
from tests.world import PATIENCE_S, HubProcess, clean_environment, free_port, wait_until

SERVER = 2  # the kind of a span
JOB = "r1:analysis:Traced"


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.close()


@pytest.fixture
def traced(start_hub: Callable[..., HubProcess], collector: Collector) -> HubProcess:
    return start_hub(
        OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, OTEL_BSP_SCHEDULE_DELAY="100", HUB_ADMIN_SECRET="a" * 20
    )


def of(number: int) -> dict[str, str]:
    """Return the headers of a caller in a trace of this number."""
    return {"traceparent": f"00-{trace(number)}-{number:016x}-01"}


def trace(number: int) -> str:
    return f"{number:032x}"


class Caller:
    """A caller with all secrets; each of its calls is in a new trace."""

    def __init__(self, hub: HubProcess, number: int = 0) -> None:
        self._hub = hub
        self._number = number

    def __call__(
        self, method: str, path: str, body: object = None, secret: str = "runner", **headers: str
    ) -> tuple[str, httpx.Response]:
        self._number += 1
        sent = {"x-hub-secret": getattr(self._hub, f"{secret}_secret"), **of(self._number), **headers}
        answer = httpx.request(method, self._hub.url + path, json=body, headers=sent, timeout=PATIENCE_S)
        return trace(self._number), answer


def one(collector: Collector, name: str, of_trace: str) -> object:
    """Return the one span of this name in a trace, once it has come."""
    wait_until(lambda: any(span.trace == of_trace for span in collector.named(name)), why=lambda: str(collector.spans))
    (found,) = [span for span in collector.named(name) if span.trace == of_trace]
    return found


def test_a_request_is_one_span_under_its_callers_span_and_a_sweep_is_one_span(traced: HubProcess, collector: Collector):
    call = Caller(traced)
    call("POST", "/node/register", {"nodeId": "n1", "policy": "reuse", "pools": {"a:b": 1}}, "node")
    borrowed, answer = call("POST", "/session/borrow", {"labelKey": "a:b"})
    assert answer.status_code == 200
    found = one(collector, "POST /session/borrow", borrowed)
    assert (found.kind, found.parent, found.service, found.error) == (SERVER, f"{2:016x}", "capacity-hub", False)
    assert found.facts == {
        "http.request.method": "POST", "http.route": "/session/borrow", "http.response.status_code": 200,
    }  # fmt: skip
    missing, _ = call("GET", "/nodes/nobody")
    assert one(collector, "GET /nodes/{node_id}", missing).facts["http.response.status_code"] == 404
    beat, _ = call("POST", "/node/heartbeat", {"nodeId": "n1"}, "node")
    assert one(collector, "POST /node/heartbeat", beat).parent == f"{4:016x}"
    wait_until(lambda: collector.named("sweep node") != [])
    sweep = collector.named("sweep node")[0]
    assert (sweep.parent, sweep.facts["hub.sweep.service"], "hub.sweep.scanned" in sweep.facts) == ("", "node", True)
    assert [span for span in collector.spans if span.trace == borrowed] == [found], "no span for a command of Redis"


def test_later_calls_of_a_lease_are_linked_to_the_span_of_its_borrow(traced: HubProcess, collector: Collector):
    call = Caller(traced)
    call("POST", "/node/register", {"nodeId": "n1", "policy": "reuse", "pools": {"a:b": 1}}, "node")
    key = {"idempotency-key": "k1"}
    borrowed, answer = call("POST", "/session/borrow", {"labelKey": "a:b"}, **key)
    lent = answer.json()
    again, repeated = call("POST", "/session/borrow", {"labelKey": "a:b"}, **key)
    assert repeated.json()["leaseToken"] == lent["leaseToken"]
    lease = {"browserId": lent["browserId"], "leaseToken": lent["leaseToken"]}
    renewed, _ = call("POST", "/session/renew", lease)
    returned, _ = call("POST", "/session/return", {"labelKey": "a:b", **lease})
    for name, number in (("borrow", again), ("renew", renewed), ("return", returned)):
        assert one(collector, f"POST /session/{name}", number).links == [borrowed], name
    assert one(collector, "POST /session/borrow", borrowed).links == []


def test_a_waiting_borrow_is_linked_to_the_span_that_serves_it(traced: HubProcess, collector: Collector):
    """A borrow waits and its caller hangs up; another call attends the ticket and is lent the slot."""
    call = Caller(traced)
    call("POST", "/node/register", {"nodeId": "n1", "policy": "reuse", "pools": {"a:b": 1}}, "node")
    _, answer = call("POST", "/session/borrow", {"labelKey": "a:b"})
    first = answer.json()
    waiting = trace(99)
    with socket.create_connection(("127.0.0.1", traced.port)) as caller:
        body = b'{"labelKey": "a:b"}'
        sent = {
            "host": "127.0.0.1", "x-hub-secret": traced.runner_secret, "idempotency-key": "k1", **of(99),
            "content-type": "application/json", "content-length": str(len(body)),
        }  # fmt: skip
        head = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
        caller.sendall(b"POST /session/borrow HTTP/1.1\r\n" + head.encode() + b"\r\n" + body)
        wait_until(lambda: call("GET", "/queue")[1].json()["waiting"] == 1)
    wait_until(lambda: call("GET", "/queue")[1].json()["away"] == 1)
    given_back = {"labelKey": "a:b", "browserId": first["browserId"], "leaseToken": first["leaseToken"]}
    with ThreadPoolExecutor(1) as others:
        attending = others.submit(Caller(traced, 200), "GET", "/queue/k1", prefer="wait=60")
        wait_until(lambda: call("GET", "/queue")[1].json()["away"] == 0)
        assert call("POST", "/session/return", given_back)[1].status_code == 200
        attended, answer = attending.result(PATIENCE_S)
    lent = answer.json()
    assert lent["state"] == "granted"
    assert one(collector, "GET /queue/{ticket}", attended).links == [waiting]
    renewed, _ = call("POST", "/session/renew", {"browserId": lent["browserId"], "leaseToken": lent["leaseToken"]})
    assert one(collector, "POST /session/renew", renewed).links == [attended]


def test_the_span_of_running_a_task_is_linked_to_its_submit(traced: HubProcess, collector: Collector, redis):
    call = Caller(traced)
    job = {"category": "analysis", "name": "Traced", "schema": {}}
    _, made = call("PUT", "/v1/joblib/rooms/r1/jobs", job, "admin")
    worker = made.json()["worker_id"]
    submitted, answer = call("POST", f"/v1/joblib/rooms/r1/tasks/{JOB}", {"payload": {}}, "admin")
    assert answer.status_code == 202, answer.text
    claimed, answer = call("POST", "/v1/joblib/tasks/claim", {"worker_id": worker}, "admin")
    task = answer.json()["task"]
    assert task["traceparent"].split("-")[1] == submitted, "the worker is told, and can go on with it"
    running, _ = call("PATCH", f"/v1/joblib/tasks/{task['id']}", {"status": "running"}, "admin")
    done, _ = call("PATCH", f"/v1/joblib/tasks/{task['id']}", {"status": "completed"}, "admin")
    assert one(collector, "POST /v1/joblib/tasks/claim", claimed).links == [submitted]
    for number in (running, done):
        assert one(collector, "PATCH /v1/joblib/tasks/{task_id}", number).links == [submitted]
    (key,) = redis.keys("hub:trace:task:*")
    assert 86_000 < redis.ttl(key) <= 86_400


@pytest.mark.parametrize("transport", ["polling", "websocket"])
async def test_a_socket_event_is_a_span_under_the_trace_of_its_connection(traced, collector, transport):
    client = SocketClient()
    sent = {"x-hub-secret": traced.admin_secret, **of(7)}
    await client.connect(traced.url, sent, transports=[transport])
    assert await client.call("room_join", {"room_id": "r1"}, timeout=PATIENCE_S) == {"status": "ok"}
    assert "room_id" in await client.call("room_leave", {}, timeout=PATIENCE_S)
    await client.shutdown()
    said = ("connect", "room_join", "room_leave")
    spans = {name: await asyncio.to_thread(one, collector, f"socket {name}", trace(7)) for name in said}
    assert {(span.kind, span.parent) for span in spans.values()} == {(SERVER, f"{7:016x}")}
    if transport == "polling":
        opened = await asyncio.to_thread(one, collector, "GET /socket.io/", trace(7))
        assert (opened.parent, opened.facts["http.response.status_code"]) == (f"{7:016x}", 200)
    assert spans["room_join"].facts == {"hub.socket.event": "room_join"}
    assert spans["room_leave"].facts == {"hub.socket.event": "room_leave", "hub.refused": "ignored"}


def test_without_the_tracing_variables_no_trace_is_kept_or_sent(start_hub, redis):
    hub = start_hub()
    call = Caller(hub)
    call("POST", "/node/register", {"nodeId": "n1", "policy": "reuse", "pools": {"a:b": 1}}, "node")
    assert call("POST", "/session/borrow", {"labelKey": "a:b"}, **{"idempotency-key": "k"})[1].status_code == 200
    assert redis.keys("hub:trace:*") == []
    code = "import sys, hub.api.server; print([m for m in sys.modules if m.startswith('opentelemetry.exporter')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"


def test_a_collector_that_is_away_delays_no_request_and_no_stop(start_hub):
    hub = start_hub(OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{free_port()}", OTEL_BSP_SCHEDULE_DELAY="50")
    call = Caller(hub)
    assert [call("GET", "/pools")[1].status_code for _ in range(20)] == [200] * 20
    hub.signal(signal.SIGTERM)
    assert hub.process.wait(PATIENCE_S) == 0


ENDLESS = b"HTTP/1.1 200 OK\r\n\r\n"
HOSTILE = {
    "endless": (ENDLESS, b"x" * 65536),
    "endless refusal": (ENDLESS.replace(b"200 OK", b"400 No"), b"x" * 65536),
    "endless chunks": (ENDLESS.replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n"), b"2\r\nxx\r\n"),
    "no HTTP": (b"\x00\xff\r\n\r\n", b""),
    "elsewhere": (b"HTTP/1.1 307 Go\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", b""),
}


@pytest.mark.parametrize("how", HOSTILE)
def test_no_answer_of_a_collector_delays_the_hub(start_hub, how):
    begins, goes_on = HOSTILE[how]
    asked: list[int] = []

    class Hostile(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            length = next(int(line.split(b":")[1]) for line in self.rfile if line.lower().startswith(b"content-length"))
            asked.append(length)
            with contextlib.suppress(OSError):
                self.wfile.write(begins)
                while goes_on:
                    self.wfile.write(goes_on)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Hostile) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        hub = start_hub(
            OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{server.server_address[1]}", OTEL_BSP_SCHEDULE_DELAY="50"
        )
        call = Caller(hub)

        def asked_again() -> bool:
            assert call("GET", "/pools")[1].status_code == 200
            return len(asked) > 2

        wait_until(asked_again)
        hub.signal(signal.SIGTERM)
        assert hub.process.wait(PATIENCE_S) == 0
        server.shutdown()


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER is 'zipkin'; it must be otlp or none."),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_PROTOCOL is 'grpc'; the hub sends http/protobuf.",
        ),
    ],
)
def test_impossible_tracing_settings_stop_the_start_with_one_sentence(variables, sentence):
    environment = {**clean_environment(), "DISABLE_DOTENV": "1", **variables}
    done = subprocess.run(
        [sys.executable, "-m", "hub.cli", "serve", "--port", "0"], env=environment, capture_output=True, text=True,
        check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_tracing_package_is_named_with_the_command_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace.export", None)
    with pytest.raises(StartRefused, match=r"pip install 'capacity-hub\[otel\]'"):
        wanted({"OTEL_TRACES_EXPORTER": "otlp"})


@pytest.mark.parametrize(
    ("variables", "on"),
    [
        ({}, False),
        ({"OTEL_SERVICE_NAME": "x"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, False),
        ({"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, False),
    ],
)
def test_the_standard_variables_configure_tracing(variables, on):
    assert wanted(variables) is on

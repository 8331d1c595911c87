"""`deploy/nginx.conf` on the real nginx, in front of real hubs."""

from __future__ import annotations

import contextlib
import http.server
import re
import shutil
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from tests.certificates import Authority
from tests.gate.gates import LABEL, EchoSlot, GateProcess, node_of, said
from tests.realms.world import write_realms
from tests.world import PATIENCE_S, free_port, wait_until

DEPLOY = Path(__file__).parent.parent / "deploy"
HUBS = ("172.30.7.11:8080", "172.30.7.12:8080")
GATE = "172.30.7.13:4444"
NGINX = shutil.which("nginx") or "/usr/sbin/nginx"


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Start nginx as it is deployed, with other addresses of hubs and ports of its own; its URL."""
    with contextlib.ExitStack() as stack:

        def start(*hubs: str, tls: Path | None = None, gate: str = GATE) -> str:
            port = free_port()
            text = (DEPLOY / "nginx.conf").read_text()
            changes = {"listen 8080 reuseport": f"listen 127.0.0.1:{port}", "/tmp/nginx.pid": f"{tmp_path}/nginx.pid"}
            changes |= {"/etc/nginx/conf.d/": f"{tmp_path}/", "/dev/stdout": f"{tmp_path}/access.log"}
            for old, new in {**changes, GATE: gate, **dict(zip(HUBS, hubs, strict=False))}.items():
                assert old in text
                text = text.replace(old, new)
            paths = "".join(f"{kind}_temp_path {tmp_path}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi"))
            paths += "".join(f"{kind}_temp_path {tmp_path}/{kind};\n" for kind in ("uwsgi", "scgi"))
            (tmp_path / "nginx.conf").write_text("daemon off;\n" + text.replace("http {\n", f"http {{\n{paths}", 1))
            if tls:
                shutil.copy(tls, tmp_path / "tls.conf")
            log = (tmp_path / "error.log").open("wb")
            process = subprocess.Popen([NGINX, "-c", str(tmp_path / "nginx.conf")], stdout=log, stderr=log)
            stack.callback(log.close)
            stack.callback(process.wait, PATIENCE_S)
            stack.callback(process.terminate)
            url = f"http://127.0.0.1:{port}"

            def listens() -> bool:
                assert process.poll() is None, (tmp_path / "error.log").read_text()
                with contextlib.suppress(httpx.HTTPError):
                    return httpx.get(f"{url}/metrics", timeout=PATIENCE_S).status_code == 404
                return False

            wait_until(listens)
            return url

        yield start


@pytest.fixture
def echo() -> Iterator[str]:
    """A server that answers with the heads it was sent; its address."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heads = "\n".join(f"{name}: {value}" for name, value in self.headers.items()).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(heads)))
            self.end_headers()
            self.wfile.write(heads)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_nginx_starts_without_a_hub_and_names_none(proxy):
    text = re.sub(r"#.*", "", (DEPLOY / "nginx.conf").read_text())
    assert set(re.findall(r"\bserver ([^\s{]+:\d+)", text)) == {*HUBS, GATE}
    assert all(re.fullmatch(r"[0-9.]+:[0-9]+", hub) for hub in HUBS)
    proxy(f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}")


@pytest.fixture
def live_hub(start_hub, redis_server, tmp_path):
    """A hub with a realm."""
    file = write_realms(tmp_path / "realms.toml", eu=(redis_server.url, {}))
    return start_hub(HUB_REALMS_FILE=str(file))


def test_nginx_sends_requests_to_a_live_hub_and_hides_the_metrics(proxy, live_hub):
    url = proxy(f"127.0.0.1:{free_port()}", f"127.0.0.1:{live_hub.port}")
    head = {"x-hub-secret": live_hub.node_secret}
    with httpx.Client(base_url=url, headers=head, timeout=PATIENCE_S) as client:
        for _ in range(4):
            assert client.post("/node/register", json={"nodeId": "n1"}).status_code == 200
            assert client.post("/api/v1/node/heartbeat", json={"nodeId": "n1"}).status_code == 200
        assert client.get("/health").json()["status"] == "ok"
        for path in (
            "/metrics",
            "/api/v1/metrics",
            "//metrics",
            "/api//v1/metrics",
            "/api/v1/%6detrics",
            "/x/../metrics",
            "/realms/eu/metrics",
            "/v2/metrics",
            "/realms/eu/v2/metrics",
            "/realms//default/api/v1/metrics",
            "/realms/eu%2fmetrics",
        ):
            answer = client.get(httpx.URL(url, raw_path=path.encode()))
            assert (answer.status_code, "hub_" in answer.text) == (404, False), path
    for path in ("/api/v1/metrics", "/v2/metrics", "/realms/default/metrics"):
        assert httpx.get(f"{live_hub.url}{path}", timeout=PATIENCE_S).status_code == 200


def test_nginx_does_not_pass_on_a_forwarded_address_of_the_caller(proxy, echo):
    url = proxy(echo, echo)
    for path in ("/nodes", "/socket.io/?EIO=4", "/realms/eu/socket.io/?EIO=4"):
        seen = httpx.get(url + path, headers={"x-forwarded-for": "6.6.6.6"}, timeout=PATIENCE_S).text
        assert re.findall(r"(?i)x-forwarded-for: (.*)", seen) == ["127.0.0.1"]


def test_with_tls_files_nginx_serves_https_too(proxy, live_hub, tmp_path):
    authority = Authority(tmp_path)
    pair = authority.issue("hub")
    port = free_port()
    text = (DEPLOY / "nginx-tls.conf").read_text()
    for old, new in {
        "listen 8443 ssl http2 reuseport": f"listen 127.0.0.1:{port} ssl http2",
        "/etc/nginx/tls/hub.pem": str(pair.cert),
        "/etc/nginx/tls/hub.key": str(pair.key),
    }.items():
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "part").write_text(text)
    plain = proxy(f"127.0.0.1:{live_hub.port}", f"127.0.0.1:{live_hub.port}", tls=tmp_path / "part")
    assert httpx.get(f"{plain}/health", timeout=PATIENCE_S).status_code == 200
    trusting = ssl.create_default_context(cafile=authority.file)
    url = f"https://127.0.0.1:{port}"
    assert httpx.get(f"{url}/health", verify=trusting, timeout=PATIENCE_S).status_code == 200
    assert httpx.get(f"{url}/api/v1/metrics", verify=trusting, timeout=PATIENCE_S).status_code == 404
    with pytest.raises(httpx.ConnectError, match="certificate verify failed"):
        httpx.get(f"{url}/health", timeout=PATIENCE_S)


async def test_nginx_passes_websockets_on_to_the_gate_and_logs_no_token(proxy, live_hub, tmp_path):
    with GateProcess(live_hub, HUB_GATE_HOST="0.0.0.0") as gate:
        url = proxy(f"127.0.0.1:{live_hub.port}", f"127.0.0.1:{live_hub.port}", gate=gate.host).replace("http", "ws")
        asked = f"{url}/connect/{LABEL}?token={gate.secret}"
        async with EchoSlot() as slot, node_of(live_hub, {"s1": slot.address}), connect(asked, proxy=None) as socket:
            assert await said(socket, "hello") == "hello"
        gate.kill()
        with pytest.raises(InvalidStatus):
            await connect(asked, proxy=None)
    logs = "".join(path.read_text() for path in (tmp_path / "error.log", tmp_path / "access.log"))
    assert gate.secret not in logs
    assert "/connect/echo:one" in logs

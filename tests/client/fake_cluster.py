"""An API server of Kubernetes on loopback that keeps the annotations of pods, and a clock that is stepped."""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import json
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hub.client import pod_annotations
from tests.certificates import Authority
from tests.world import PATIENCE_S


class Clock:
    """Stands in for `sleep`: time goes on when it is told to."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._asleep: list[tuple[float, asyncio.Future[None]]] = []

    @property
    def asleep(self) -> bool:
        """Whether anybody sleeps."""
        return bool(self._asleep)

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.get_running_loop().create_future()
        self._asleep.append((self.now_s + seconds, woken))
        await woken

    def step(self, seconds: float) -> None:
        """Let so much time pass."""
        self.now_s += seconds
        for each in [each for each in self._asleep if each[0] <= self.now_s]:
            self._asleep.remove(each)
            if not each[1].done():
                each[1].set_result(None)


@dataclass
class Cluster:
    """The pods that a stub API server knows, and every request that it got."""

    clock: Clock
    account: Path
    annotations: dict[str, str] = field(default_factory=dict)
    seen: list[tuple[float, str, dict[str, str], Any]] = field(default_factory=list)
    answers: int = 200
    speaks: threading.Event = field(default_factory=threading.Event)

    @property
    def cost(self) -> int | None:
        """Return the deletion cost in the annotations of the pod."""
        cost = self.annotations.get(pod_annotations.DELETION_COST)
        return None if cost is None else int(cost)

    def take(self, path: str, head: dict[str, str], body: Any) -> int:
        """Answer a PATCH as the server does."""
        self.seen.append((self.clock.now_s, path, head, body))
        self.speaks.wait(PATIENCE_S)
        if self.answers == 200:
            for name, value in body["metadata"]["annotations"].items():
                self.annotations.pop(name, None)
                if value is not None:
                    self.annotations[name] = value
        return self.answers


def in_a_pod(port: int) -> dict[str, str]:
    """The environment of a process in the pod rack-7-0 of the namespace fleet."""
    return {
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": str(port),
        "POD_NAME": "rack-7-0",
        "POD_NAMESPACE": "fleet",
    }


@contextlib.contextmanager
def running(folder: Path, clock: Clock) -> Iterator[tuple[Cluster, dict[str, str]]]:
    """The stub API server over TLS, with a service account in `folder`; and the environment of its pod."""
    authority = Authority(folder)
    pair = authority.issue("kubernetes")
    authority.file.rename(folder / "ca.crt")
    (folder / "token").write_text("token-1\n")
    cluster = Cluster(clock, folder)
    cluster.speaks.set()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_PATCH(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            status = cluster.take(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            self.send_response(status)
            self.send_header("content-length", "2")
            with contextlib.suppress(OSError):  # who asked has gone
                self.end_headers()
                self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield cluster, in_a_pod(server.server_port)
    finally:
        cluster.speaks.set()
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock that pods sleep by."""
    clock = Clock()
    monkeypatch.setattr(pod_annotations, "sleep", clock.sleep)
    return clock


@pytest.fixture
def cluster(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A cluster that this process is a pod of."""
    with running(tmp_path, clock) as (cluster, environment):
        monkeypatch.setattr(pod_annotations, "ACCOUNT", cluster.account)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield cluster

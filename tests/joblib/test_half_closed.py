"""Redis ends its half of a connection and keeps the other: calls under way are told of an outage, not of a fault."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.joblib.people import done, fresh, problem
from tests.joblib.stage import CALM, Stage
from tests.world import wait_until

CALLERS = 8


class Between:
    """Stands between a hub and Redis."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.takes = True  # new connections
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._near: list[socket.socket] = []
        self._open = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                if not self.takes:
                    near.close()
                    continue
                far = socket.create_connection(("127.0.0.1", self._port))
                self._near.append(near)
                self._open += [near, far]
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self._pass_on, args=(source, sink), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while said := source.recv(1 << 16):
                with contextlib.suppress(BrokenPipeError):  # bytes to the closed half are lost
                    sink.sendall(said)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def half_close(self) -> None:
        """Nothing comes to the hub any more by what is connected now; what it says is still taken."""
        near, self._near = self._near, []
        for each in near:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_WR)

    def end(self) -> None:
        for each in self._open:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


@pytest.fixture
def between(http: httpx.Client, tmp_path: Path) -> Iterator[tuple[Stage, Between]]:
    """A hub, and what stands between it and its Redis."""
    found = Stage(tmp_path, http)
    wires = Between(found.server.port)
    try:
        found.start(1, **CALM, HUB_REDIS_URL=f"redis://127.0.0.1:{wires.port}")
        yield found, wires
    finally:
        found.stop()
        wires.end()


def test_during_an_outage_claims_are_answered_with_retry_after_and_no_traceback_is_logged(
    between: tuple[Stage, Between],
) -> None:
    found, wires = between
    ann, room = found.person("alice-t"), fresh()
    full = f"{room}:modifiers:Rotate"
    workers = [ann.job(room) for _ in range(CALLERS)]
    over = threading.Event()

    def claim(worker: str) -> list[httpx.Response]:
        answers = []
        while not over.is_set():  # some wait, with a subscription; others only ask
            answers += [ann.ask(worker, waitSeconds=1), ann.ask(worker)]
        return answers

    def served() -> bool:
        """A task that is submitted now finds its worker."""
        sent = ann.send(room, full, {})
        if sent.status_code != 202:
            return False
        wait_until(lambda: '"claimed"' in ann.get(f"/tasks/{sent.json()['id']}").text, why=found.hubs[0].log)
        return True

    with ThreadPoolExecutor(CALLERS) as pool:
        asking = [pool.submit(claim, worker) for worker in workers]
        try:
            for wires.takes in (True, True, False, True, False):
                wires.half_close()
                if not wires.takes:
                    wait_until(lambda: ann.ask(workers[0]).status_code == 503, why=found.hubs[0].log)
                    wires.takes = True
                wait_until(served, why=found.hubs[0].log)
        finally:
            over.set()
        answers = [answer for each in asking for answer in each.result()]
    for answer in answers:
        if answer.status_code == 503:
            problem(answer, 503, "store-unavailable")
            assert int(answer.headers["retry-after"]) >= 1
        else:
            done(answer, 200)
    assert {answer.status_code for answer in answers} == {200, 503}
    assert "Traceback" not in found.hubs[0].log(), found.hubs[0].log()
    assert "ERROR" not in found.hubs[0].log().replace("ERROR store unreachable", ""), found.hubs[0].log()

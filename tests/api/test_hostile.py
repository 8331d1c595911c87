"""Connections that mean ill, many of each kind: others are served meanwhile, and all of them end by themselves.

`HUB_HOSTILE=500` for so many of each kind, one kind after the other, at a hub with its own bounds. What heartbeats of
others took is asserted then, and printed with `-s`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import socket
import time
from collections import Counter
from pathlib import Path

import pytest
from redis import Redis

from tests.api.wires import Wire
from tests.frames import frame
from tests.world import PATIENCE_S, HubProcess, eventually, wait_until

FULL = int(os.environ.get("HUB_HOSTILE", "0"))
MANY = FULL or 20
ROOMS = 5_000 if FULL else 100
BATCH_BYTES = 1 << 20
BATCHES = 80 if FULL else 6
P99_MS = 100.0
HOST = "host: h\r\n"
BEAT = b'POST /node/heartbeat HTTP/1.1\r\nhost: h\r\nx-hub-secret: node-s3\r\ncontent-length: 15\r\n\r\n{"nodeId":"n1"}'
SHAKE = (
    b"GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nhost: h\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"
)
BOUNDS = {
    "HUB_NODE_TIMEOUT": "3600",
    "HUB_ANONYMOUS_READS": "true",
    "HUB_REQUEST_HEADERS_TIMEOUT_SECONDS": "5",
    "HUB_KEEP_ALIVE_TIMEOUT_SECONDS": "5",
}
# Bounds that no setting allows: a hub that has these shows in a second what others show in a minute.
HURRY = """
import hub.api.server as server
from hub.api.serving import writing
from hub.api.serving import protocol
from hub.api.operators import events
from hub.api.sockets import sockets
from hub.api.serving import upgrades as sockets_protocol
sockets_protocol.GOODBYE_S = server.REST_S = protocol.REST_S = events.SEND_S = sockets.SEND_S = writing.UNREAD_S = 0.5
writing.RATE = 1 << 24
sockets.PING_S = sockets.PONG_S = 1
serve, short = server._serve, {"request_headers_timeout_s": 1.0, "keep_alive_timeout_s": 1.0}
server._serve = lambda settings: serve(settings.model_copy(update=short))
"""
LINUX = [Path("/proc/net/tcp"), Path("/proc/self/schedstat")]
pytestmark = pytest.mark.skipif(
    not all(path.exists() for path in LINUX), reason="this system does not tell of its connections and processes"
)
OVER = {"05", "06", "0A"}  # FIN-WAIT-2, TIME-WAIT: the client has all, and the system forgets it soon; or listening


JOINS = b"".join([frame("40"), *(frame(f'42["room_join",{{"room_id":"r{n}"}}]') for n in range(ROOMS))])
# What is sent at once, then over and over; whether it says that it will send nothing more.
KINDS = {
    "idle": (b"", b"", False),
    "slow head": (b"GET /nodes HTTP/1.1\r\n", b"x: y\r\n", False),
    "slow body after a refusal": (
        f"POST /nodes HTTP/1.1\r\n{HOST}x-hub-secret: wrong\r\ncontent-length: 60000\r\n\r\n".encode(), b" ", False,
    ),
    "half-closed": (b"GET /nodes HTTP/1.1\r\n", b"", True),
    "half-closed after requests": (f"GET /openapi.json HTTP/1.1\r\n{HOST}\r\n".encode() * 20, b"", True),
    "a reader of events that does not read": (
        f"GET /events HTTP/1.1\r\n{HOST}x-hub-secret: admin-s3\r\n\r\n".encode(), b"", False,
    ),
    "a socket in many rooms": (SHAKE, b"", False),
}  # fmt: skip


class Hostile:
    """One of them. It reads nothing."""

    def __init__(self, port: int, kind: str) -> None:
        self.kind = kind
        first, self._then, half = KINDS[kind]
        self._left = b""
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.settimeout(PATIENCE_S)
        self.socket.connect(("127.0.0.1", port))
        self.port = self.socket.getsockname()[1]
        with contextlib.suppress(OSError):
            self.socket.sendall(first)
            if first is SHAKE:
                assert self.socket.recv(4096).startswith(b"HTTP/1.1 101 ")
                self._left = JOINS
            if half:
                self.socket.shutdown(socket.SHUT_WR)
        self.socket.setblocking(False)

    def go_on(self) -> None:
        """Send what comes next, if the hub takes it."""
        with contextlib.suppress(OSError):
            if self._left:
                self._left = self._left[self.socket.send(self._left) :]
            elif self._then:
                self.socket.send(self._then)


def held(port: int) -> dict[int, str]:
    """Connections that a server of this machine, or the system for it, still has: port of the client -> state."""
    rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    ours = [row for row in rows if row[1].endswith(f":{port:04X}") and row[3] not in OVER]
    return {int(row[2].split(":")[1], 16): row[3] for row in ours}


def left(port: int, hostile: list[Hostile]) -> Counter[str]:
    """Return how many hostile connections of each kind are still open."""
    there = held(port)
    return Counter(f"{each.kind} ({there[each.port]})" for each in hostile if each.port in there)


@pytest.fixture
def many_descriptors():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def hostile():
    """Make connections of some kinds: `hostile(port, kinds)`."""
    with contextlib.ExitStack() as stack:

        def make(port: int, kinds: list[str]) -> list[Hostile]:
            made = []
            for kind in kinds * MANY:
                made.append(Hostile(port, kind))
                stack.callback(made[-1].socket.close)
            return made

        yield make


class Others:
    """Nodes that beat beside all that."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._over = asyncio.Event()
        self.took: list[float] = []  # by each heartbeat that was answered, in ms
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Others:
        self._tasks = [asyncio.create_task(self._beat()) for _ in range(4)]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._over.set()
        await asyncio.gather(*self._tasks)

    async def _beat(self) -> None:
        while not self._over.is_set():
            # This process may have stood still for longer than a connection may be idle: connect again.
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
                try:
                    while not self._over.is_set():
                        await self._beat_once(reader, writer)
                        await asyncio.sleep(0.01)
                finally:
                    writer.close()

    async def _beat_once(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        began = time.perf_counter()
        writer.write(BEAT)
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE_S)
        assert head.startswith(b"HTTP/1.1 200 ")
        await reader.readexactly(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))
        self.took.append((time.perf_counter() - began) * 1000)

    def p99(self) -> float:
        return sorted(self.took)[int(len(self.took) * 0.99)]

    async def served(self, more: int) -> None:
        """Wait until so many more heartbeats have been answered."""
        enough = len(self.took) + more
        await eventually(lambda: len(self.took) >= enough or self._failed())

    def _failed(self) -> bool:
        for task in self._tasks:
            if task.done():
                task.result()
        return False


class Judge:
    """A bar for the duration of heartbeats on an idle machine.

    On a busy machine durations are scaled by the share of runnable time that the hub and this process got.
    """

    def __init__(self, hub: HubProcess, what: str) -> None:
        self._what = what
        self._looks = [Path(f"/proc/{pid}/schedstat") for pid in (hub.process.pid, os.getpid())]
        self._before = self._times()

    def _times(self) -> list[tuple[int, int]]:
        """Return for hub and test process: nanoseconds on a processor, and nanoseconds waiting for one."""
        found = [look.read_text().split() for look in self._looks]
        return [(int(ran), int(waited)) for ran, waited, _ in found]

    def share(self) -> float:
        share = 1.0
        for (ran, waited), (ran_before, waited_before) in zip(self._times(), self._before, strict=True):
            share *= (ran - ran_before) / max(1, ran - ran_before + waited - waited_before)
        return share

    def judge(self, others: Others) -> None:
        p99, took, share = others.p99(), sorted(others.took), self.share()
        print(f"\n{self._what}: {len(took)} heartbeats of others, p50 {took[len(took) // 2]:.1f} ms, p99 {p99:.1f} ms, "
              f"longest {took[-1]:.1f} ms; share of the machine {share:.2f}")  # fmt: skip
        if FULL:
            assert p99 * share < P99_MS


async def talk(redis: Redis) -> None:
    """Let events happen, of a kind that is long."""
    while True:
        with redis.pipeline(transaction=False) as several:
            for _ in range(5):
                several.xadd("hub:history", {"event": "grant.lent", "slot": "s" * 2_000})
            several.execute()
        await asyncio.sleep(0.02)


def known(port: int) -> None:
    """Make the node that beats known."""
    with Wire(port) as wire:
        wire.send(BEAT.replace(b"heartbeat", b"register"))
        assert wire.answer()[0] == 200


@pytest.mark.parametrize("kinds", [[kind] for kind in KINDS] if FULL else [list(KINDS)], ids=", ".join)
async def test_hostile_connections_are_closed_and_delay_no_caller(start_hub, redis, many_descriptors, hostile, kinds):
    hub = await asyncio.to_thread(start_hub, before="" if FULL else HURRY, **BOUNDS)
    known(hub.port)
    judge = Judge(hub, f"{MANY} x {', '.join(kinds)}")
    talking = asyncio.create_task(talk(redis))
    async with Others(hub.port) as others:
        made = await asyncio.to_thread(hostile, hub.port, kinds)
        until = time.monotonic() + (120 if FULL else 0) + 3 * PATIENCE_S
        while there := left(hub.port, made):
            assert time.monotonic() < until, (there, hub.log()[-2000:])
            assert not talking.done(), talking.result()
            for each in made:
                each.go_on()
            await asyncio.sleep(0.2 if FULL else 0.02)
        await others.served(10)
    talking.cancel()
    await asyncio.wait([talking])
    judge.judge(others)
    await asyncio.to_thread(wait_until, lambda: not held(hub.port))
    assert "Traceback" not in hub.log()


async def test_large_batches_of_one_caller_delay_no_other_caller(start_hub):
    hub = await asyncio.to_thread(start_hub, HUB_NODE_TIMEOUT="3600")
    known(hub.port)
    judge = Judge(hub, f"{BATCHES} x {BATCH_BYTES >> 20} MiB")
    async with hub.client("admin") as eve:
        path = "/v1/joblib/rooms/lab"
        assert (await eve.put(f"{path}/jobs", json={"category": "analysis", "name": "X"})).is_success
        payload = b'{"a":[' + b",".join([b'{"b":"c, d"}'] * 2_000) + b"]}"
        body = b'{"payloads":[' + b",".join([payload] * (BATCH_BYTES // len(payload) - 1)) + b"]}"
        async with Others(hub.port) as others:
            batches = [eve.post(f"{path}/tasks/lab:analysis:X", content=body) for _ in range(BATCHES)]
            answers = await asyncio.gather(*batches)
            await others.served(10)
    codes = Counter(answer.status_code for answer in answers)
    assert codes[202] > 1, answers[0].text
    assert codes.keys() <= {202, 503}, codes  # who brings much, and waits for long, is told to bring less
    judge.judge(others)
    if FULL:  # they come twice a second, and skip a turn when the process stood still for as long
        assert "sweep skipped" not in hub.log()

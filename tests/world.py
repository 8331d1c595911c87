"""Builders: servers, hubs, nodes and slots as tests need them, and waiting for what must come true."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import http.client
import inspect
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import weakref
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

import httpx
from redis import Redis
from redis.exceptions import RedisError

from hub.capacity.nodes.models import Registration
from hub.core import Hub
from hub.settings import Settings
from hub.sweeping.leases import LeaseSweeperService
from hub.sweeping.nodes import NodeSweeperService
from hub.sweeping.reconciler import Reconciler
from tests.forks import begin

SECRETS = {"HUB_RUNNER_SECRET": "runner-s3", "HUB_NODE_SECRET": "node-s3", "HUB_ADMIN_SECRET": "admin-s3"}
SHORT = {
    "HUB_NODE_TIMEOUT": "8",  # nothing is lent of a node from half of it on
    "HUB_SWEEPER_EXPIRE": "true",
    "HUB_NODE_SWEEP_INTERVAL_SECONDS": "0.5",
    "HUB_NODE_SWEEP_INTERVAL_MIN_SECONDS": "0.1",
    "HUB_BORROW_TTL_MIN_SECONDS": "0.2",
    "HUB_BORROW_TTL_SWEEP_SECONDS": "0.5",
    "HUB_BORROW_TTL_SWEEP_MIN_SECONDS": "0.1",
    "REDIS_HEALTH_TIMEOUT_MS": "10000",
}


# A machine that runs tests may let any process stand still for some seconds, at any moment.
PATIENCE_S = 30.0  # after which a wait gives up; it costs nothing when all is well
SLACK_S = 5.0  # what such a machine may add where a time is what is promised

LINGERING = "import hub.api.server; hub.api.server.LINGER_S = {}"

# Nothing here speaks TLS, and every HTTP client would begin with reading the certificates of the whole world.
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = str(Path(__file__).parent)

KEPT = 128  # how many ports stay reserved; servers of older ones have ended
_kept: collections.deque[int] = collections.deque()


def free_port() -> int:
    """Return a free TCP port. It stays bound here, where the system allows that, so that no other program gets it.

    Otherwise the system may give it to the near end of any new connection before its server has started, or to a server
    of another test process while its server is down.
    """
    held = _bound(0)
    port = int(held.getsockname()[1])
    try:
        with _bound(port) as probe:
            probe.listen()
        _kept.append(held.detach())
        if len(_kept) > KEPT:
            os.close(_kept.popleft())
    except OSError:
        held.close()
    return port


def _bound(port: int) -> socket.socket:
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind(("127.0.0.1", port))
    except OSError:
        found.close()
        raise
    return found


def settings_for(redis_url: str, **changes: Any) -> Settings:
    """Return settings with expiry on, no waiting, and a patient health check; the rest are defaults."""
    chosen = {"sweeper_expire": True, "borrow_queue_timeout_s": 0, "redis_health_timeout_ms": 10_000, **changes}
    return Settings(**{"redis_url": redis_url, **chosen})


class RedisServer:
    """A real Redis server with an append-only file, on a port of its own. `with RedisServer(folder) as server:`."""

    def __init__(self, folder: Path, *, append_fsync: str = "everysec") -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}"
        self._append_fsync = append_fsync
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the server on the data in its folder, and wait until it answers."""
        self.folder.mkdir(exist_ok=True)
        binary = shutil.which("redis-server") or shutil.which("valkey-server")
        assert binary, "the tests need redis-server or valkey-server on the PATH"
        options = f"--port {self.port} --bind 127.0.0.1 --dir {self.folder} --appendonly yes --save"
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [binary, *options.split(), "", "--appendfsync", self._append_fsync], stdout=log, stderr=log
            )
        wait_until(self._answers, 60)

    def _answers(self) -> bool:
        with contextlib.suppress(RedisError):
            return bool(self.client().ping())
        return False

    def kill(self) -> None:
        """SIGKILL, as a crash would."""
        assert self._process
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        """SIGSTOP: it stands still, and its connections stay."""
        assert self._process
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        assert self._process
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """End it without keeping anything."""
        if self._process and self._process.poll() is None:
            self.kill()

    def client(self) -> Redis:
        """Return a plain client, text in and out."""
        return Redis.from_url(self.url, decode_responses=True)


class LoggedProcess:
    """A command of `hub` in a process of its own, which runs until it is signalled or killed; its log is in a file."""

    def __init__(self, words: Sequence[str], environment: dict[str, str], **options: Any) -> None:
        """The options are those of `begin`."""
        self.environment = {**clean_environment(), **environment, "DISABLE_DOTENV": "1"}
        self.log_path, self.keep_log = log_file(self)
        self._log = self.log_path.open("ab")
        self.process = begin(words, self.environment, self._log, self._log, **options)

    def log(self) -> str:
        """Return the lines that it has logged so far, without one that is just being written."""
        said = self.log_path.read_bytes()
        return said[: said.rfind(b"\n") + 1].decode()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, as a crash would; safe when it has ended."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._log.close()


class HubProcess(LoggedProcess):
    """`hub serve` in a process of its own, with secrets, short timeouts and expiry on unless told otherwise.

    `with HubProcess(environment) as hub:` waits until it is ready, and kills it in the end.
    """

    def __init__(
        self, environment: dict[str, str], *, linger_s: float | None = None, before: str = "", anew: bool = False
    ) -> None:
        """With `linger_s` it stays so long after SIGTERM, instead of for a second; a second signal ends it at once.
        `before` is Python that runs in it before it begins, and with `anew` before it has imported anything.
        """
        self.port = int(environment.get("HUB_PORT", 0)) or free_port()
        self.over_tls = "HUB_TLS_CERT" in environment
        self.url = f"{'https' if self.over_tls else 'http'}://127.0.0.1:{self.port}"
        chosen = {**SECRETS, **SHORT, **environment, "HUB_PORT": str(self.port)}
        self.redis_url = environment.get("HUB_REDIS_URL", "")
        self.runner_secret = chosen["HUB_RUNNER_SECRET"]
        self.node_secret = chosen["HUB_NODE_SECRET"]
        self.admin_secret = chosen["HUB_ADMIN_SECRET"]
        if linger_s is not None:
            before = LINGERING.format(linger_s)
        super().__init__(["serve"], chosen, before=before, anew=anew)

    def __enter__(self) -> Self:
        try:
            self.wait_until_ready()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def redis(self) -> Redis:
        """A plain client of the store behind it."""
        return Redis.from_url(self.redis_url, decode_responses=True)

    def client(self, role: str = "admin", **options: Any) -> httpx.AsyncClient:
        """Return an HTTP client with the secret of a role: runner, node or admin."""
        secret = {"runner": self.runner_secret, "node": self.node_secret, "admin": self.admin_secret}[role]
        return httpx.AsyncClient(
            base_url=self.url, headers={"x-hub-secret": secret}, **{"timeout": PATIENCE_S, **options}
        )

    def wait_until_ready(self, seconds: float = 60) -> None:
        """Wait until it takes requests; fails with its log when it ends instead."""
        wait_until(self._ready, seconds, lambda: f"the hub did not come up:\n{self.log()}")

    def _ready(self) -> bool:
        assert self.process.poll() is None, f"the hub ended with {self.process.returncode}:\n{self.log()}"
        return answers(self.port, "/health/ready", over_tls=self.over_tls)


def log_file(owner: object) -> tuple[Path, Callable[[], object]]:
    """Return a new file that is deleted along with its owner, and a function that keeps it."""
    handle, name = tempfile.mkstemp(prefix="hub-log-")
    os.close(handle)
    return Path(name), weakref.finalize(owner, Path(name).unlink, missing_ok=True).detach


def answers(port: int, path: str, *, over_tls: bool = False) -> bool:
    """Whether a server of this machine answers 200; asked many times a second while processes want the processor."""
    connection = (
        http.client.HTTPSConnection("127.0.0.1", port, timeout=10, context=ssl._create_unverified_context())
        if over_tls
        else http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    )
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def clean_environment() -> dict[str, str]:
    """This process's environment without what would configure a hub."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("HUB_", "REDIS_"))}


def wait_until(
    condition: Callable[[], object],
    seconds: float = PATIENCE_S,
    why: Callable[[], str] = lambda: "it did not come true",
) -> None:
    """Return as soon as the condition holds; fail when it does not within the time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, why()
        time.sleep(0.02)


async def eventually(
    condition: Callable[[], object | Awaitable[object]], seconds: float = PATIENCE_S, pause_s: float = 0.02
) -> None:
    """Wait until a function, or the coroutine that it returns, returns something true; the event loop goes on."""
    deadline = time.monotonic() + seconds
    while not (await found if inspect.isawaitable(found := condition()) else found):
        assert time.monotonic() < deadline, f"it did not come true within {seconds} s"
        await asyncio.sleep(pause_s)


async def add_node(hub: Hub, node_id: str) -> None:
    """Register a node without slots."""
    await hub.nodes.register(Registration(node_id), [], "{}", "{}", 100)


async def publish(api: httpx.AsyncClient, node_id: str, **pools: list[str]) -> None:
    """Register a node and publish slots: `publish(api, "n1", **{"gpu:a100": ["s1", "s2"]})`."""
    slots = [{"labelKey": label, "slotId": slot} for label, ids in pools.items() for slot in ids]
    answer = await api.post("/node/register", json={"nodeId": node_id, "slots": slots})
    assert answer.status_code == 200, answer.text


async def borrow(api: httpx.AsyncClient, label: str, run: str = "r1", **more: Any) -> httpx.Response:
    """Ask for a slot."""
    return await api.post("/session/borrow", json={"labelKey": label, **more}, headers={"x-run-id": run})


def push(redis: Redis, label: str, *slots: tuple[str, str], lent: bool = False) -> None:
    """Put slots straight into a list, as a node that speaks to Redis itself does: (slot, node) each."""
    for slot, node in slots:
        redis.rpush(f"{'inuse' if lent else 'available'}:{label}", f'{{"nodeId":"{node}","browserId":"{slot}"}}')


def listed(redis: Redis, name: str) -> list[str]:
    """Return the slot ids of a list, head first."""
    return [json.loads(item)["browserId"] for item in redis.lrange(name, 0, -1)]


def age_node(redis: Redis, node_id: str, seconds: float) -> None:
    """Make a node's last beat so long ago, on the hub clock and in every trace of it."""
    seen = datetime.now(UTC) - timedelta(seconds=seconds)
    redis.delete(f"node_alive:{node_id}")
    redis.hset(f"node:{node_id}", "LastSeen", seen.strftime("%Y-%m-%dT%H:%M:%S.%f") + "0Z")
    clock_ms = int(redis.hget("hub:store", "clock_ms") or 0)
    if redis.zscore("hub:beats", node_id) is not None:
        redis.zadd("hub:beats", {node_id: clock_ms - seconds * 1000})


async def age_lease(hub: Hub, slot: str) -> None:
    """Make the lease of a slot overdue."""
    clock_ms = int(await hub.store.read("HGET", hub.store.keys.store, "clock_ms") or 0)
    await hub.store.read("ZADD", hub.store.keys.deadlines, clock_ms - 1, slot)


async def end_graces(hub: Hub) -> None:
    """End the grace of every slot whose lease was revoked."""
    keys = hub.store.keys
    # A grace may have begun up to a second past the last tick, and after a standstill that second is not counted.
    await hub.store.read("HINCRBY", keys.store, "clock_ms", int(hub.settings.revoke_grace_s * 1000) + 1000)
    await hub.queue.look_after()


async def give_back(api: httpx.AsyncClient, label: str, slot: str, **more: Any) -> httpx.Response:
    """Return a slot."""
    return await api.post("/session/return", json={"labelKey": label, "browserId": slot, **more})


async def beat(api: httpx.AsyncClient, node_id: str, version: int = 0, **more: Any) -> dict[str, Any]:
    """Send one heartbeat and return its answer."""
    answer = await api.post("/node/heartbeat", json={"nodeId": node_id, "version": version, **more})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def sweepers(hub: Hub) -> tuple[NodeSweeperService, LeaseSweeperService]:
    """Both services of a hub, to be run pass by pass."""
    audit = Reconciler(hub.store, hub.settings, hub.pools, hub.holds)
    nodes = NodeSweeperService(hub.store, hub.settings, hub.nodes, hub.clock, audit, hub.audit)
    return nodes, LeaseSweeperService(hub.store, hub.settings, hub.leases, audit, hub.audit)


def picture(redis: Redis, *, own: bool = False) -> dict[str, Any]:
    """Return every key of the wire with its content, as other programs see it; with `own` the private ones as well."""
    readers: dict[str, Callable[[str], Any]] = {
        "string": redis.get,
        "list": lambda key: redis.lrange(key, 0, -1),
        "set": redis.smembers,
        "hash": redis.hgetall,
        "zset": lambda key: redis.zrange(key, 0, -1, withscores=True),
        "stream": redis.xrange,
    }
    names = [key for key in sorted(redis.keys("*")) if own or not key.startswith("hub:")]
    kinds = {key: redis.type(key) for key in names}
    # One that has lapsed since it was named is of no kind.
    return {key: readers[kind](key) for key, kind in kinds.items() if kind != "none"}

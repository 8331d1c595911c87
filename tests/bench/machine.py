"""The machine of a benchmark: which process uses which core, the measured processes, and the load on them."""

from __future__ import annotations

import contextlib
import json
import math
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

import httpx
from redis import Redis
from redis.exceptions import RedisError

from tests.bench.probe import COUNT
from tests.world import clean_environment, free_port, wait_until

CORES = sorted(os.sched_getaffinity(0))
SERVER_CORE, LOAD_CORE = CORES[0], CORES[-1]  # the process under test has one core, Redis and the load the other
NODE_SECRET, RUNNER_SECRET = "node-s3", "runner-s3"
WRK = Path(__file__).parent / "wrk"
REDIS_OPTIONS = {  # as in deploy/redis.conf; benchmarks of memory turn the append-only file off
    "bind": "127.0.0.1",
    "maxmemory-policy": "noeviction",
    "appendonly": "yes",
    "appendfsync": "everysec",
    "save": "",
    "slowlog-max-len": "256",
}
_serving: dict[int, int] = {}  # port -> process, of servers that have one
UVICORN = "--http httptools --loop uvloop --ws none --no-access-log --no-server-header --no-date-header"


class Missing(Exception):
    """A program the benchmarks need is not there and could not be installed."""


@dataclass(frozen=True)
class Load:
    """The figures of a load generator: answers with status below 400, those above, lost connections, seconds; how long
    all but one in a hundred took, where the script says it; and the processor time of the server meanwhile."""

    answered: int
    refused: int
    broken: int
    seconds: float
    p99_ms: float = math.nan
    cpu_s: float = math.nan

    @property
    def per_second(self) -> float:
        return self.answered / self.seconds

    @property
    def per_cpu_second(self) -> float:
        """Answers for each second of the server's processor: what its neighbours take from it does not count."""
        return self.answered / self.cpu_s


def need(program: str, package: str) -> str:
    """Return the path of a program; Debian's `package` is installed when it is missing. Raises `Missing`."""
    if not shutil.which(program) and shutil.which("apt-get"):
        sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
        head = [*sudo, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq"]
        for command in (["update"], ["install", "-y", "--no-install-recommends", package]):
            subprocess.run([*head, *command], check=False, stdout=subprocess.DEVNULL)
    found = shutil.which(program)
    if not found:
        raise Missing(f"The benchmarks need {program} on the PATH, and it could not be installed: please install one.")
    return found


def conditions() -> list[str]:
    """Return the conditions that the figures depend on, for the head of the report."""
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    packages = ", ".join(f"{name} {version(name)}" for name in ("uvicorn", "httptools", "uvloop", "fastapi", "redis"))
    programs = [_first_line(need("redis-server", "redis-server"), "--version")]
    programs += [
        _first_line(name, option) for name, option in (("wrk", "-v"), ("etcd", "--version")) if shutil.which(name)
    ]
    niceness, load_average = os.getpriority(os.PRIO_PROCESS, 0), os.getloadavg()[0]
    busy = "; THE MACHINE IS BUSY: these figures mean little" if load_average > 1 else ""
    return [
        f"{len(CORES)} cores ({model[1] if model else platform.machine()}), load average {load_average:.1f}{busy}",
        f"Python {platform.python_version()}, {packages}",
        ", ".join(programs),
        f"servers under test on core {SERVER_CORE}, wrk and Redis on core {LOAD_CORE}, niceness {niceness}",
        "Redis with an append-only file, fsync every second; without one where a million nodes are stored",
        "every ratio: median of the rounds, both sides measured in each round",
    ]


def _first_line(program: str, option: str) -> str:
    done = subprocess.run([program, option], capture_output=True, text=True, check=False)
    line = (done.stdout or done.stderr).splitlines()[0]
    return re.sub(r" (sha|Copyright|malloc).*", "", line)


def keep_to(core: int, *, until_it_waits: bool = False) -> None:
    """Stay on one core, and ahead of other processes there where that is permitted; with `until_it_waits` no other
    process of the kind takes the core away before this one has nothing to do."""
    os.sched_setaffinity(0, {core})
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, -20)
        if until_it_waits:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


@contextmanager
def on_core(*cores: int, until_it_waits: bool = False) -> Iterator[None]:
    """This process on other cores than it keeps to, for as long as it is the load; `until_it_waits` as in `keep_to`."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        with contextlib.suppress(OSError):
            os.sched_setscheduler(
                0, os.SCHED_FIFO if until_it_waits else os.SCHED_OTHER, os.sched_param(until_it_waits)
            )
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        os.sched_setaffinity(0, before)


@contextmanager
def process(
    command: Sequence[str],
    core: int,
    environment: dict[str, str] | None = None,
    *,
    inherited: Sequence[int] = (),
    until_it_waits: bool = False,
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that stays on one core and is killed on leaving; its last words are shown when it ended by itself."""
    with tempfile.TemporaryFile() as log:
        running = subprocess.Popen(
            command,
            env={**clean_environment(), **(environment or {})},
            stdout=log,
            stderr=log,
            preexec_fn=partial(keep_to, core, until_it_waits=until_it_waits),
            pass_fds=inherited,
        )
        try:
            yield running
            if running.poll() is not None:
                log.seek(0)
                raise RuntimeError(f"{command[0]} ended by itself:\n{log.read().decode(errors='replace')[-2000:]}")
        finally:
            running.kill()
            running.wait()


@contextmanager
def redis_server(**options: str) -> Iterator[Redis]:
    """A Redis server of its own on the load core, and a client of it; `.url` is where it listens."""
    with tempfile.TemporaryDirectory(prefix="hub-bench-") as folder:
        port = free_port()
        chosen = {**REDIS_OPTIONS, **options, "dir": folder, "port": str(port)}
        flags = [text for name, value in chosen.items() for text in (f"--{name}", value)]
        with process([need("redis-server", "redis-server"), *flags], LOAD_CORE):
            client = Redis(port=port, decode_responses=True, socket_timeout=120)
            wait_until(lambda: _tries(client.ping), 20)
            yield client
            client.close()


def url_of(client: Redis) -> str:
    """Return where the server of a client listens."""
    return f"redis://127.0.0.1:{client.connection_pool.connection_kwargs['port']}"


@contextmanager
def hub_server(redis: Redis, *, until_it_waits: bool = False, **settings: str) -> Iterator[int]:
    """`hub serve`, one process, with secrets and the settings of a deployment and those given; yields its port."""
    port = free_port()
    environment = {
        "HUB_REDIS_URL": url_of(redis),
        "HUB_PORT": str(port),
        "HUB_RUNNER_SECRET": RUNNER_SECRET,
        "HUB_NODE_SECRET": NODE_SECRET,
        "HUB_SWEEPER_EXPIRE": "true",
        "DISABLE_DOTENV": "1",
        **settings,
    }
    serve = [sys.executable, "-m", "hub.cli", "serve"]
    with process(serve, SERVER_CORE, environment, until_it_waits=until_it_waits) as running:
        _serving[port] = running.pid
        _until_it_answers(f"http://127.0.0.1:{port}/health/ready")
        yield port


@contextmanager
def baseline_server(name: str) -> Iterator[int]:
    """An application of `baselines.py` on the server the hub runs on, with the same options; yields its port."""
    port = free_port()
    command = f"-m uvicorn tests.bench.baselines:{name} --port {port} --log-level warning {UVICORN}"
    with process([sys.executable, *command.split()], SERVER_CORE) as running:
        _serving[port] = running.pid
        _until_it_answers(f"http://127.0.0.1:{port}/", "POST")
        yield port


@contextmanager
def baseline_servers(name: str, number: int) -> Iterator[tuple[int, list[int]]]:
    """So many processes of that application that listen together and take turns; yields port and process ids."""
    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=2048))
        fd, port = listening.fileno(), listening.getsockname()[1]
        command = f"-m uvicorn tests.bench.baselines:{name} --fd {fd} --log-level warning {UVICORN}"
        running = [
            stack.enter_context(
                process([sys.executable, *command.split()], SERVER_CORE, inherited=[fd], until_it_waits=True)
            )
            for _ in range(number)
        ]
        _until_it_answers(f"http://127.0.0.1:{port}/", "POST")
        yield port, [each.pid for each in running]


@contextmanager
def etcd_server() -> Iterator[int]:
    """An etcd of its own with its HTTP gateway; yields its port."""
    with tempfile.TemporaryDirectory(prefix="hub-bench-") as folder, ExitStack() as stack:
        client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        flags = {"data-dir": folder, "listen-client-urls": client, "advertise-client-urls": client,
                 "listen-peer-urls": peer, "initial-advertise-peer-urls": peer,
                 "initial-cluster": f"default={peer}", "log-level": "error"}  # fmt: skip
        command = [need("etcd", "etcd-server"), *(f"--{name}={value}" for name, value in flags.items())]
        stack.enter_context(process(command, SERVER_CORE))
        _until_it_answers(f"{client}/health")
        yield int(client.rpartition(":")[2])


def _until_it_answers(url: str, method: str = "GET") -> None:
    wait_until(lambda: _tries(lambda: httpx.request(method, url, timeout=2).status_code < 500), 30)


def _tries(question: Callable[[], object]) -> bool:
    try:
        return bool(question())
    except (httpx.HTTPError, RedisError, OSError):
        return False


def load(script: str, port: int, connections: int, seconds: float, *arguments: str) -> Load:
    """Load a server with `wrk/<script>.lua` for a while."""
    command = _wrk(script, port, connections, seconds, *arguments)
    before = spent_s(port)
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        timeout=seconds + 60,
        preexec_fn=partial(keep_to, LOAD_CORE),
    )
    return Load(**json.loads(done.stdout.splitlines()[-1]), cpu_s=spent_s(port) - before)


@contextmanager
def loading(script: str, port: int, connections: int, *arguments: str) -> Iterator[None]:
    """Load a server with `wrk/<script>.lua` until it is left."""
    with process(_wrk(script, port, connections, 3_600, *arguments), LOAD_CORE):
        yield


def _wrk(script: str, port: int, connections: int, seconds: float, *arguments: str) -> list[str]:
    command = [need("wrk", "wrk"), "-t1", f"-c{connections}", f"-d{seconds:g}s", "--timeout", "10s"]
    return [*command, "-s", str(WRK / f"{script}.lua"), f"http://127.0.0.1:{port}", "--", *arguments]


def spent_s(port: int) -> float:
    """Processor time that the server of a port has taken so far, in seconds; NaN where its process is not known."""
    return spent_by_s(_serving[port]) if port in _serving else math.nan


def spent_by_s(pid: int) -> float:
    """Return the processor time that a process has taken so far, in seconds."""
    spent = (each.read_text().split()[0] for each in Path(f"/proc/{pid}/task").glob("*/schedstat"))
    return sum(map(int, spent)) / 1e9


@contextmanager
def probe() -> Iterator[Callable[[], tuple[int, float]]]:
    """`tests.bench.probe` on the core of the servers; yields what tells the pieces of work it has done so far, and the
    processor time it took for them in seconds. Their quotient over a while is the speed of the core in it, which
    neighbours on the same machine change by a tenth and more."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(bytes(COUNT.size))
        file.flush()
        with process([sys.executable, "-m", "tests.bench.probe", file.name], SERVER_CORE) as running:

            def done() -> tuple[int, float]:
                return COUNT.unpack(os.pread(file.fileno(), COUNT.size, 0))[0], spent_by_s(running.pid)

            wait_until(lambda: done()[0] > 0)
            yield done

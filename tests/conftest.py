"""Fixtures: a real Redis server per test process, a hub on it in this process, and hubs in processes of their own."""

from __future__ import annotations

import fcntl
import gc
import logging
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest
from redis import Redis

from hub.api.app import create_app
from hub.core import Hub
from hub.settings import Settings
from hub.store.connection import open_store
from tests.forks import Forks
from tests.wire import Wire
from tests.world import HubProcess, RedisServer, settings_for

TOP = Path(__file__).parent.parent


def pytest_configure() -> None:
    """Ctrl-C and a lost terminal mean to what the tests start what they always mean, however the tests were started:
    in the background of a shell both would be ignored, here and in every process below.
    """
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, lambda *_: None)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)
    # httpx looks for this module at each request and goes on without it. In hundreds of thousands of looks for a module
    # that is not installed, one was broken off by the garbage collector with a KeyError of the import lock.
    if find_spec("sniffio") is None:
        sys.modules["sniffio"] = None  # type: ignore[assignment]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """The garbage collector does not look through thousands of tests, which all stay: while they are collected it would
    again and again, in each test process, and so would every look of it at everything from then on.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, Any, Any]:
    """Escape captured text that is not valid UTF-8, such as a file name: xdist cannot send it between processes."""
    report = yield
    report.sections = [(name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections]
    return report


@pytest.fixture(scope="session", autouse=True)
def _forks() -> Iterator[None]:
    """Fork hubs and commands from a process that has everything imported."""
    Forks.ready = Forks()
    yield
    Forks.ready.close()
    Forks.ready = None


@pytest.fixture(autouse=True)
def _backlogs() -> Iterator[None]:
    """Drop calls that a test's clients could not send to their hub: later tests must not wait for them."""
    yield
    if "hub.client.backlog" in sys.modules:
        for backlog in list(sys.modules["hub.client.backlog"]._all):
            backlog.begin_anew()


@pytest.fixture(autouse=True)
def _logs() -> Iterator[None]:
    """Restore level and handlers of the root logger after each test: other tests assert on what was logged."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    yield
    root.setLevel(level)
    root.handlers[:] = handlers


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel that `pip install` would get, once for all test processes."""
    folder = tmp_path_factory.getbasetemp()
    folder = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "wheel"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not list(folder.glob("*.whl")):
            build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
            subprocess.run(build, cwd=TOP, check=True, capture_output=True, timeout=120)
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="session")
def _server() -> Iterator[RedisServer]:
    with tempfile.TemporaryDirectory(prefix="hub-test-") as folder, RedisServer(Path(folder)) as server:
        yield server


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis server of the test alone, to be killed and started again; it keeps everything that it has answered."""
    with RedisServer(tmp_path / "redis", append_fsync="always") as server:
        yield server


@pytest.fixture
def redis_server(_server: RedisServer) -> RedisServer:
    """A running Redis server, emptied; tests that kill one take `own_redis`."""
    _server.client().flushall()
    return _server


@pytest.fixture
def redis(redis_server: RedisServer) -> Iterator[Redis]:
    """A plain client of the server, as another program would use it."""
    client = redis_server.client()
    yield client
    client.close()


@pytest.fixture
def settings(redis_server: RedisServer) -> Settings:
    """Settings with short bounds; expiry is on."""
    return settings_for(redis_server.url)


@pytest.fixture
async def hub(settings: Settings) -> AsyncIterator[Hub]:
    """A hub in this process that neither ticks nor sweeps by itself."""
    async with open_store(settings) as store:
        yield Hub(store, settings)


@pytest.fixture
def make_api(redis_server: RedisServer) -> Callable[..., Any]:
    """Make clients of applications with settings of one's own: `async with make_api(borrow_wildcards=True) as api`."""

    @asynccontextmanager
    async def make(**changes: Any) -> AsyncIterator[httpx.AsyncClient]:
        app = create_app(settings_for(**{"redis_url": redis_server.url, **changes}), sweep=False)
        async with app.app.router.lifespan_context(app.app):
            transport = httpx.ASGITransport(app=app)
            async with httpx.AsyncClient(transport=transport, base_url="http://hub") as client:
                yield client

    return make


@pytest.fixture
async def api(make_api: Callable[..., Any]) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the whole application in this process; open access, no sweepers."""
    async with make_api() as client:
        yield client


@pytest.fixture
def start_hub(redis_server: RedisServer) -> Iterator[Callable[..., HubProcess]]:
    """Start `hub serve` processes: `start_hub(HUB_NODE_TIMEOUT="2")`; they are ended with the test."""
    started: list[HubProcess] = []

    def start(*, linger_s: float | None = None, before: str = "", anew: bool = False, **environment: str) -> HubProcess:
        chosen = {"HUB_REDIS_URL": redis_server.url, **environment}
        process = HubProcess(chosen, linger_s=linger_s, before=before, anew=anew)
        started.append(process)
        process.wait_until_ready()
        return process

    yield start
    for process in started:
        if "HUB_WORKERS" in process.environment and process.process.poll() is None:
            # Killed, its workers would live a moment longer, in the store of the next test.
            process.signal(signal.SIGTERM)
            process.process.wait(60)
        process.kill()


@pytest.fixture
def live_hub(start_hub: Callable[..., HubProcess]) -> HubProcess:
    """A `hub serve` process with secrets, short timeouts and expiry on."""
    return start_hub()


@pytest.fixture
async def wire(redis_server: RedisServer) -> AsyncIterator[Wire]:
    """Yield a proxy between a hub and Redis whose connections can be broken."""
    found = Wire(redis_server.port)
    yield found
    await found.stop()

"""Two Redis servers, a file of realms, and hubs on them."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from hub.api.app import create_realms
from hub.api.dispatch.realms import Realms
from tests.realms.world import EU, write_realms
from tests.world import RedisServer, eventually, settings_for


@pytest.fixture(scope="session")
def _second() -> Iterator[RedisServer]:
    with tempfile.TemporaryDirectory(prefix="hub-realm-") as folder, RedisServer(Path(folder)) as server:
        yield server


@pytest.fixture
def second(_second: RedisServer) -> RedisServer:
    """A second, emptied Redis server; tests that kill a server start their own."""
    with _second.client() as client:
        client.flushall()
    return _second


@pytest.fixture
def realms_file(tmp_path: Path, second: RedisServer) -> Path:
    """`eu` and `us` on the second server."""
    return write_realms(tmp_path / "realms.toml", eu=(second.url, EU), us=(second.url, {}))


async def all_open(app: Realms) -> bool:
    """Return whether every store has been reached."""
    return all(part.serving for part in app.parts.values())


@pytest.fixture
def make_realms(redis_server: RedisServer, realms_file: Path) -> Callable[..., Any]:
    """Make clients of hubs with realms in this process: `async with make_realms(realms=("eu",)) as api`."""

    @asynccontextmanager
    async def make(**changes: Any) -> AsyncIterator[httpx.AsyncClient]:
        settings = settings_for(
            **{"redis_url": redis_server.url, "realms_file": realms_file, "allowed_hosts": ("hub",), **changes}
        )
        app = create_realms(settings, sweep=False)
        async with app.running():
            await eventually(lambda: all_open(app))
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://hub") as client:
                client.realms = app  # type: ignore[attr-defined]
                yield client

    return make


@pytest.fixture
async def api(make_realms: Callable[..., Any]) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a hub that serves the default realm, `eu` and `us`."""
    async with make_realms() as client:
        yield client

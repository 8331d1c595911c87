"""Hubs with tokens, and clients that remember what they were told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
import uvicorn

from hub.api.app import create_app
from hub.api.serving.upgrades import SocketProtocol, UpgradingProtocol
from tests.sockets.people import ANN, BOB, ROOT, Listener
from tests.world import HubProcess, RedisServer, eventually, free_port, settings_for

GRACE = {"HUB_SIO_DISCONNECT_GRACE_SECONDS": "1"}
TOKENS = f"""
[[tokens]]
token = "ann"
user = "ann"
user_id = "{UUID(ANN)}"

[[tokens]]
token = "ann-reads"
user = "ann"
user_id = "{UUID(ANN)}"
scopes = ["read"]

[[tokens]]
token = "bob"
user = "bob"
user_id = "{UUID(BOB)}"

[[tokens]]
token = "gone"
user = "gone"
active = false

[[tokens]]
token = "root"
user = "root"
user_id = "{UUID(ROOT)}"
superuser = true
"""


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    """A file with the tokens ann, ann-reads, bob, root, and gone, whose user is."""
    path = tmp_path / "tokens.toml"
    path.write_text(TOKENS)
    return path


@pytest.fixture(scope="package")
def _standing(_server: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    path = tmp_path_factory.mktemp("standing") / "tokens.toml"
    path.write_text(TOKENS)
    with HubProcess({"HUB_REDIS_URL": _server.url, "HUB_TOKENS_FILE": str(path), **GRACE}) as process:
        yield process


@pytest.fixture
def here(redis_server: RedisServer, _standing: HubProcess) -> HubProcess:
    """A hub that knows the tokens and outlives the tests; its store is emptied for each."""
    return _standing


@pytest.fixture
def start(start_hub: Callable[..., HubProcess], tokens: Path) -> Callable[..., HubProcess]:
    """Start a hub of one's own that knows the tokens."""

    def start(**environment: Any) -> HubProcess:
        return start_hub(**{"HUB_TOKENS_FILE": str(tokens), **GRACE, **environment})

    return start


@pytest.fixture
async def listen() -> AsyncIterator[Callable[..., Any]]:
    """Connect a client: `await listen(hub, token="ann", transports=["polling"])`; all hang up with the test."""
    connected: list[Listener] = []

    async def listen(process: HubProcess, token: str | None = "ann", **options: Any) -> Listener:
        listener = Listener(process, token, **options)
        connected.append(listener)
        await listener.connect()
        return listener

    yield listen
    for listener in connected:
        await listener.hang_up()


@pytest.fixture
async def serve(redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Callable[..., Any]]:
    """Serve an application of this process on a port: `process, app = await serve(redis_url=None)`."""
    servers: list[tuple[uvicorn.Server, asyncio.Task[None]]] = []

    async def serve(**changes: Any) -> tuple[Any, Any]:
        app = create_app(settings_for(**{"redis_url": redis_server.url, **changes}))
        port = free_port()
        options = {"http": UpgradingProtocol, "ws": SocketProtocol, "timeout_graceful_shutdown": 1}
        server = uvicorn.Server(uvicorn.Config(app, port=port, log_config=None, ws_ping_interval=None, **options))
        monkeypatch.setattr(server, "capture_signals", nullcontext)
        servers.append((server, asyncio.create_task(server.serve())))
        await eventually(lambda: server.started)
        return SimpleNamespace(url=f"http://127.0.0.1:{port}"), app.app.state

    yield serve
    for server, running in servers:
        server.should_exit = True
        await running

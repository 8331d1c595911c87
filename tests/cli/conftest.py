"""The `hub` command, pointed at a hub that tests share, at one of their own, or at none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.cli.command import Command, leave, register
from tests.cli.joblib import Joblib
from tests.cli.terminal import Terminal
from tests.world import HubProcess, RedisServer


@pytest.fixture(scope="session")
def shared_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    """A hub for tests that leave it as it was; nodes and workers that never beat stay alive in it, and who waits in its
    queue may wait for as long as a module takes."""
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    patient = {
        f"HUB_{name}": "600" for name in ("NODE_TIMEOUT", "WORKER_TIMEOUT_SECONDS", "BORROW_QUEUE_TIMEOUT_SECONDS")
    }
    patient["HUB_REQUEST_TIMEOUT_SECONDS"] = "700"
    hub = HubProcess({"HUB_REDIS_URL": server.url, "HUB_REVOKE_GRACE_SECONDS": "0", **patient})
    hub.wait_until_ready()
    yield hub
    hub.kill()
    server.stop()


@pytest.fixture
def command(shared_hub: HubProcess, tmp_path: Path) -> Iterator[Command]:
    """The command with the address and the secrets of the shared hub; what it has started is ended with the test."""
    made = Command(shared_hub, tmp_path)
    yield made
    made.close()


@pytest.fixture
def announce(shared_hub: HubProcess, command: Command) -> Iterator[Callable[..., None]]:
    """Announce nodes that never beat to the shared hub; they go when the commands of the test have ended."""
    announced: list[str] = []

    def announce_node(node: str, **body: Any) -> None:
        register(shared_hub, node, **body)
        announced.append(node)

    yield announce_node
    command.close()
    for node in announced:
        leave(shared_hub, node)


@pytest.fixture
def joblib(shared_hub: HubProcess) -> Iterator[Joblib]:
    """The jobs API of the shared hub, asked by its operator."""
    api = Joblib(shared_hub)
    yield api
    api.close()


@pytest.fixture
def room() -> str:
    """The name of a room that nobody else uses in the shared hub."""
    return f"room-{uuid4().hex[:8]}"


@pytest.fixture
def own_hub(start_hub) -> HubProcess:
    """A hub that the test may kill; a node that never beats stays alive in it."""
    return start_hub(HUB_NODE_TIMEOUT="600")


@pytest.fixture
def own_command(own_hub: HubProcess, tmp_path: Path) -> Iterator[Command]:
    """The command with the address and the secrets of the test's own hub."""
    made = Command(own_hub, tmp_path)
    yield made
    made.close()


@pytest.fixture
def lone_command(tmp_path: Path) -> Iterator[Command]:
    """The command on a machine where nothing is set and no hub listens."""
    made = Command(None, tmp_path)
    made.environment["HUB_URL"] = "http://127.0.0.1:9"
    yield made
    made.close()


@pytest.fixture
def terminal() -> Iterator[Callable[..., Terminal]]:
    """Open terminals that are closed with the test: `terminal(command, "nodes")`."""
    opened: list[Terminal] = []

    def run(command: Command, *words: str, **how: Any) -> Terminal:
        opened.append(Terminal(command, *words, **how))
        return opened[-1]

    yield run
    for each in opened:
        each.close()

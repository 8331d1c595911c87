"""Two hubs on one Redis, called in turn, so that each test is also one of replicas; and users with tokens."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.joblib.listener import Listener
from tests.joblib.people import Person, fresh
from tests.joblib.stage import CALM, QUICK, Stage, stage


@pytest.fixture(scope="package")
def http() -> Iterator[httpx.Client]:
    """One HTTP client for all tests; its connections are kept."""
    limits = httpx.Limits(max_connections=200, max_keepalive_connections=50)
    with httpx.Client(limits=limits, trust_env=False, verify=False) as client:
        yield client


@pytest.fixture(scope="package")
def hubs(http: httpx.Client) -> Iterator[Stage]:
    """Two hubs on one Redis; nothing of this folder expires while a test looks at it."""
    with stage(http, 2, **CALM) as found:
        yield found


@pytest.fixture(scope="package")
def quick(http: httpx.Client) -> Iterator[Stage]:
    """A hub with short timeouts, on a Redis of its own."""
    with stage(http, 1, **QUICK) as found:
        yield found


@pytest.fixture(scope="module")
def fragile(http: httpx.Client) -> Iterator[Stage]:
    """A hub with short timeouts for one module, which may restart it, and its Redis too."""
    with stage(http, 1, **QUICK) as found:
        yield found


@pytest.fixture(scope="package")
def alice(hubs: Stage) -> Person:
    """A plain user."""
    return hubs.person("alice-t")


@pytest.fixture(scope="package")
def bob(hubs: Stage) -> Person:
    """A second plain user."""
    return hubs.person("bob-t")


@pytest.fixture(scope="package")
def root(hubs: Stage) -> Person:
    """A superuser."""
    return hubs.person("root-t")


@pytest.fixture(scope="package")
def gone(hubs: Stage) -> Person:
    """A user who is not active."""
    return hubs.person("gone-t")


@pytest.fixture(scope="package")
def stranger(hubs: Stage) -> Person:
    """A caller without a token."""
    return hubs.person(None)


@pytest.fixture
def room() -> str:
    """A room that no other test uses."""
    return fresh()


@pytest.fixture
def full(room: str) -> str:
    """The full name of the job that `person.job(room)` registers."""
    return f"{room}:modifiers:Rotate"


@pytest.fixture(scope="package")
def fence(root: Person) -> str:
    """A provider whose results serve as marks: a listener that gets one has got every earlier event."""
    return str(root.provider("fence", "fence")["id"])


@pytest.fixture
async def listen(hubs: Stage, root: Person, fence: str) -> AsyncIterator[Callable[..., Any]]:
    """Connect a listener that has joined rooms: `await listen("lab", hub=1)`; all hang up with the test."""
    connected: list[Listener] = []

    async def listen(*rooms: str, hub: int = 0, token: str | None = "alice-t") -> Listener:
        listener = Listener(hubs.hubs[hub].url, token, root, fence)
        connected.append(listener)
        await listener.connect()
        await listener.join(*rooms)
        await listener.heard()  # events of before may still be on their way to its hub
        return listener

    yield listen
    for listener in connected:
        await listener.hang_up()

"""Fixtures of hooks: a receiver, and a hub with the delivery of messages, step by step."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from hub.core import Hub
from hub.hooks.delivery import HookDelivery
from hub.hooks.messages import new_secret
from tests.hooks.receiver import Receiver
from tests.world import HubProcess, clean_environment


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as found:
        yield found


@pytest.fixture
def delivery(hub: Hub) -> HookDelivery:
    return HookDelivery(hub.store, hub.clock, ["127.0.0.1"])


@pytest.fixture
def add_hook(hub: Hub, receiver: Receiver) -> Callable[..., Awaitable[str]]:
    """Add a hook for the receiver, and return its id."""

    async def add(on: str = "lease.granted,lease.ended", **facts: str) -> str:
        secret = facts.pop("secret", "") or new_secret()
        asked = {"url": receiver.url, "label": "", "user": "", "format": "json", "by": "test", **facts}
        return (await hub.hooks.add({"on": on, **asked}, secret))["id"]

    return add


@pytest.fixture
def note(hub: Hub) -> Callable[..., Awaitable[None]]:
    """Write an event into the history, as a script would."""
    written = hub.store.script("store/note")
    numbers = iter(range(1_000_000))

    async def write(what: str, **facts: str) -> None:
        await written(what=what, id=str(next(numbers)), rest=[each for pair in facts.items() for each in pair])

    return write


@pytest.fixture
def deliver(delivery: HookDelivery) -> Callable[[], Awaitable[Any]]:
    """Relay and deliver until nothing is due at this moment."""

    async def run() -> None:
        while await delivery.relay():
            pass
        while await delivery.take():
            await asyncio.gather(*delivery._sending)

    return run


@pytest.fixture
def step(hub: Hub) -> Callable[[float], Awaitable[None]]:
    """Move the hub clock on by so many seconds."""

    async def move(seconds: float) -> None:
        await hub.store.read("HINCRBY", hub.store.keys.store, "clock_ms", int(seconds * 1000))

    return move


@pytest.fixture
def run_hub() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `hub hook` against a hub."""

    def run(hub: HubProcess, *words: str) -> subprocess.CompletedProcess[str]:
        told = {"HUB_URL": hub.url, "HUB_ADMIN_SECRET": hub.admin_secret, "DISABLE_DOTENV": "1", "COLUMNS": "200"}
        command = [sys.executable, "-m", "hub.cli", "hook", *words]
        return subprocess.run(command, env={**clean_environment(), **told}, capture_output=True, text=True, timeout=60)

    return run

"""Two hubs on one store that look after the line, and borrowers spread over both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from hub.capacity import queue
from hub.core import Hub
from hub.store.cancelling import cancel_all
from hub.store.connection import open_store
from tests.capacity.queue.crowd import Crowd
from tests.world import RedisServer, settings_for


@pytest.fixture
def no_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let hubs look after the queue only when a test calls it, and not once a second."""
    monkeypatch.setattr(queue, "ROUND_S", 3600.0)


@pytest.fixture
def changes() -> dict[str, Any]:
    """Settings other than the defaults; parametrize to change them."""
    return {}


@pytest.fixture
async def hubs(redis_server: RedisServer, changes: dict[str, Any]) -> AsyncIterator[list[Hub]]:
    """Two hubs that tick and look after the line, as two processes would."""
    settings = settings_for(redis_server.url, **{"borrow_queue_timeout_s": 30, **changes})
    async with AsyncExitStack() as stack:
        found = []
        for _ in range(2):
            found.append(Hub(await stack.enter_async_context(open_store(settings)), settings))
            await found[-1].agreed.agree()
        running = [
            asyncio.create_task(job)
            for hub in found
            for job in (hub.queue.listen(), hub.queue.go_round(), hub.clock.run())
        ]
        yield found
        await cancel_all(running)


@pytest.fixture
async def crowd(hubs: list[Hub]) -> AsyncIterator[Crowd]:
    """Borrowers who wait at either hub in turn."""
    found = Crowd(*hubs)
    yield found
    await found.go_home()

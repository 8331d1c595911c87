"""The client for threads, used as the client for asyncio is, so that one test holds for both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Self

import pytest

from hub.client import HubClient, Slot, SyncBundle, SyncHubClient
from tests.world import PATIENCE_S

Kind = Callable[..., Any]


class InThreads:
    """A `SyncHubClient` whose calls run in threads, and are awaited."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._client = SyncHubClient(*arguments, **options)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self._client.close)

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._client, name)

        async def call(*arguments: Any, **options: Any) -> Any:
            return await asyncio.to_thread(method, *arguments, **options)

        return call

    @asynccontextmanager
    async def borrow(self, *arguments: Any, **options: Any) -> AsyncIterator[Slot]:
        async with _entered(self._client.borrow(*arguments, **options)) as slot:
            yield slot

    @asynccontextmanager
    async def borrow_all(self, *arguments: Any, **options: Any) -> AsyncIterator[BundleInThreads]:
        async with _entered(self._client.borrow_all(*arguments, **options)) as bundle:
            yield BundleInThreads(bundle)


class BundleInThreads:
    """A `SyncBundle` that is given back in a thread."""

    def __init__(self, bundle: SyncBundle) -> None:
        self._bundle = bundle

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bundle, name)

    async def give_back(self) -> bool:
        return await asyncio.to_thread(self._bundle.give_back)


@asynccontextmanager
async def _entered(borrowing: Any) -> AsyncIterator[Any]:
    held = await asyncio.to_thread(borrowing.__enter__)
    try:
        yield held
    except BaseException as error:
        await asyncio.to_thread(borrowing.__exit__, type(error), error, error.__traceback__)
        raise
    await asyncio.to_thread(borrowing.__exit__, None, None, None)


async def until_lost(slot: Slot) -> None:
    """Wait until the block of a lost slot is to end: asyncio cancels this wait, a thread sees it by itself."""
    await asyncio.to_thread(slot.lost.wait, PATIENCE_S)
    await asyncio.sleep(0)


@pytest.fixture(params=[HubClient, InThreads], ids=["asyncio", "threads"])
def kind(request: pytest.FixtureRequest) -> Kind:
    """The client for asyncio, and that for threads."""
    found: Kind = request.param
    return found

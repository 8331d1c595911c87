"""Listeners to events come and go while others do and while the hub stops; nothing is left of those that went."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import pytest

from hub.api.app import create_app
from hub.errors import Stopping
from hub.history import live
from hub.history.events import wanted
from hub.store.follow import Follower
from tests.world import PATIENCE_S, settings_for


@pytest.fixture
async def events(redis_server) -> AsyncIterator[live.Live]:
    app = create_app(settings_for(redis_url=redis_server.url), sweep=False)
    async with app.app.router.lifespan_context(app.app):
        yield app.app.state.serving.live


async def test_a_listener_who_leaves_at_once_leaves_no_connection_behind(events):
    async with events.listen(wanted("", {})):
        pass  # one that is left is named when it is collected, which fails the test


async def test_a_stopping_hub_accepts_no_new_listener(events, monkeypatch):
    asking, answered, newest = asyncio.Event(), asyncio.Event(), Follower.newest

    async def slow(self: Follower) -> str:
        asking.set()
        await answered.wait()
        return await newest(self)

    async def begin() -> None:
        async with events.listen(wanted("", {})):
            pytest.fail("nobody would ever end it")

    monkeypatch.setattr(Follower, "newest", slow)
    async with asyncio.TaskGroup() as together:
        some = [together.create_task(_refused(begin())) for _ in range(2)]  # one that asks, and one that waits for it
        await asyncio.wait_for(asking.wait(), PATIENCE_S)
        events.stop()
        await events.close()
        answered.set()
    assert [each.result() for each in some] == ["The hub is stopping"] * 2
    assert not events._readers


async def _refused(call: Coroutine[Any, Any, None]) -> str:
    with pytest.raises(Stopping) as refused:
        await call
    return str(refused.value)


async def test_a_closed_stream_reads_no_more_events(events):
    async with events.listen(wanted("", {})):
        reader = events._reader
        await events.close()
        assert reader.done()


async def test_a_listener_gets_signs_of_life_although_another_one_left_as_it_came(events, monkeypatch):
    monkeypatch.setattr(live, "KEEP_ALIVE_S", 0.05)
    told: list[Any] = []

    async def begin(*, stays: bool) -> None:
        async with events.listen(wanted("", {})) as listener:
            if stays:
                told.append(await asyncio.wait_for(listener.take(), PATIENCE_S))

    going = asyncio.create_task(begin(stays=False))
    await asyncio.sleep(0)
    staying = asyncio.create_task(begin(stays=True))
    while events._reader is None:  # noqa: ASYNC110 - the very next turn of the loop is meant
        await asyncio.sleep(0)
    going.cancel()
    await asyncio.wait((going, staying))
    assert told == [([], None)]

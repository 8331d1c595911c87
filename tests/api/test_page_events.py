"""The stream of a page of the console: events, and the state of the hub, which is computed once for all pages."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from hub.api.app import create_app
from hub.api.console import overview
from hub.errors import StoreUnavailable
from hub.history.events import wanted
from hub.history.live import Live
from hub.observability import metrics
from tests.api.streams import PAGE_EVENTS, Stream, listening
from tests.world import PATIENCE_S, eventually, publish, settings_for

TELL_S = 0.05


@pytest.fixture
async def app(redis_server, monkeypatch) -> AsyncIterator[Any]:
    """An application that tells often."""
    monkeypatch.setattr(overview, "TELL_S", TELL_S)
    async with served(redis_server) as found:
        yield found


@pytest.fixture
async def events(redis_server, monkeypatch) -> AsyncIterator[Live]:
    """The live events of an application that sends no state by itself."""
    monkeypatch.setattr(overview, "TELL_S", 3600.0)
    async with served(redis_server) as found:
        yield found.app.state.serving.live


@asynccontextmanager
async def served(redis_server: Any) -> AsyncIterator[Any]:
    found = create_app(settings_for(redis_url=redis_server.url), sweep=False)
    async with found.app.router.lifespan_context(found.app):
        yield found


@pytest.fixture
async def api(app) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://hub") as found:
        yield found


@asynccontextmanager
async def page_of(app: Any, api: httpx.AsyncClient) -> AsyncIterator[Stream]:
    """A page that shows how the hub is: it asks once."""
    async with listening(app, path=PAGE_EVENTS) as found:
        (await api.get("/console/overview")).raise_for_status()
        yield found


async def told(stream: Stream, many: int) -> list[dict[str, Any]]:
    """Return the overviews that came, as soon as there are so many."""
    await eventually(lambda: len(stream.overviews) >= many)
    return stream.overviews


async def test_an_open_page_is_sent_the_state_of_the_hub_without_asking(app, api):
    async with page_of(app, api) as page:
        assert (await told(page, 1))[0]["seen"]["nodes"]["registered"] == 0
        await publish(api, "n1", **{"gpu:a100": ["s1"]})
        await page.until(2)
        await eventually(lambda: page.overviews[-1]["seen"]["slots"]["free"] == 1)
    assert page.names == ["node.registered", "slot.published"]
    assert page.last_id == page.events[-1]["id"], "an overview is no event to resume after"


async def test_all_pages_are_sent_the_answer_of_the_api_with_its_age(app, api, monkeypatch):
    monkeypatch.setattr(overview, "FRESH_S", 3600)
    async with page_of(app, api) as one, page_of(app, api) as other:
        asked = (await api.get("/console/overview")).json()
        for page in (one, other):
            several = await told(page, 3)
            assert [each["seen"] for each in several[1:]] == [asked] * len(several[1:])
            ages = [each["ageMs"] for each in several]
            assert ages == sorted(ages)
            assert ages[-1] - ages[0] >= 1000 * TELL_S


async def test_a_listener_to_events_alone_is_sent_nothing_else(app, api):
    async with listening(app) as plain, page_of(app, api) as page:
        await told(page, 2)
        assert plain.overviews == []


async def test_the_hub_computes_no_state_while_no_page_shows_it(app, api, monkeypatch):
    looks, tells = 0, asyncio.Queue[float]()
    look, reckon = overview._look, time.monotonic

    async def counted(*of: Any) -> dict[str, Any]:
        nonlocal looks
        looks += 1
        return await look(*of)

    def asked_for_the_time() -> float:  # as often as the hub thinks of telling
        tells.put_nowait(now := reckon())
        return now

    monkeypatch.setattr(overview, "_look", counted)
    monkeypatch.setattr(overview, "WANTED_S", 0.0)
    monkeypatch.setattr(overview, "time", SimpleNamespace(monotonic=asked_for_the_time))
    async with listening(app, path=PAGE_EVENTS) as hidden:
        await api.get("/console/overview")
        asked = looks
        for _ in range(10):
            await asyncio.wait_for(tells.get(), PATIENCE_S)
        assert (hidden.overviews, looks) == ([], asked)


async def test_a_page_that_reads_late_gets_only_the_newest_state(app, api, redis, monkeypatch):
    monkeypatch.setattr(overview, "FRESH_S", 0.0)
    async with page_of(app, api) as page, page_of(app, api) as quick:
        await told(page, 1)
        page.reading.clear()
        before, meanwhile = len(page.overviews), len(quick.overviews)
        await told(quick, meanwhile + 5)
        redis.sadd("nodes", "late")
        await eventually(lambda: quick.overviews[-1]["seen"]["nodes"]["registered"] == 1)
        page.reading.set()
        several = (await told(page, before + 2))[before:]
    registered = [each["seen"]["nodes"]["registered"] for each in several]
    assert registered[:2] == [0, 1], "one was being sent already; of those after it the newest alone was there"


async def test_a_state_is_sent_together_with_the_next_events(events, redis, monkeypatch):
    """Waking a listener costs a write to its connection, so state and events share one."""
    monkeypatch.setattr(events, "_pause_s", 3600.0)  # by itself it would come in more than an hour
    async with events.listen(wanted("", {}), latest=True) as listener, events.listen(wanted("", {})) as plain:
        taking = asyncio.create_task(listener.take())
        await asyncio.sleep(0)
        events.tell(lambda: b"old")
        events.tell(lambda: b"new")
        assert not plain.has_news
        redis.xadd("hub:history", {"event": "grant.lent"})
        found, latest = await taking
        assert ([event.what for event in found], latest and latest()) == (["grant.lent"], b"new")
        assert not listener.has_news


async def test_a_state_is_sent_by_itself_when_no_events_happen(events):
    async with events.listen(wanted("", {}), latest=True) as listener:
        taking = asyncio.create_task(listener.take())
        await asyncio.sleep(0)
        events.tell(lambda: b"alone")
        found, latest = await taking
        assert (found, latest and latest()) == ([], b"alone")


@pytest.mark.parametrize("given", [{"after": "yesterday"}, {"after": "1-2-3"}])
async def test_a_page_resumes_its_stream_like_every_listener(api, given):
    answer = await api.get(PAGE_EVENTS, params=given)
    assert (answer.status_code, answer.json()["member"]) == (400, "after")


@pytest.mark.parametrize(("error", "noted"), [(StoreUnavailable("away"), False), (RuntimeError("broken"), True)])
async def test_a_failed_look_at_the_state_ends_no_page_and_the_next_state_is_sent(app, api, monkeypatch, error, noted):
    real, failed = overview._look, 0

    async def failing(*_: Any) -> dict[str, Any]:
        nonlocal failed
        failed += 1
        raise error

    monkeypatch.setattr(overview, "FRESH_S", 0.0)
    before = metrics.unhandled._value.get()
    async with page_of(app, api) as page:
        await told(page, 1)
        monkeypatch.setattr(overview, "_look", failing)
        await eventually(lambda: failed >= 2)
        monkeypatch.setattr(overview, "_look", real)
        so_far = len(page.overviews)
        await told(page, so_far + 2)
        assert not page.ended
    assert (metrics.unhandled._value.get() > before) is noted

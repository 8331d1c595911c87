"""Lists that many pages show: made once for equal calls at the same time, and never older than the latest event."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from hub.api.app import create_app
from hub.api.handling import shared_lists
from hub.api.pipeline import RequestPipeline
from tests.api.streams import listening
from tests.world import publish, settings_for

SECRETS = {f"{role}_secret": f"{role}-secret-of-the-test" for role in ("runner", "node", "admin")}
ADMIN, RUNNER = ({"x-hub-secret": SECRETS[f"{role}_secret"]} for role in ("admin", "runner"))
NODES = "/nodes?detail=1"


@pytest.fixture
async def app(redis_server, monkeypatch) -> AsyncIterator[RequestPipeline]:
    monkeypatch.setattr(shared_lists, "KEPT_S", 60)  # however slow it is here
    found = create_app(settings_for(redis_url=redis_server.url, **SECRETS), sweep=False)
    async with found.app.router.lifespan_context(found.app):
        yield found


@pytest.fixture
def made(monkeypatch) -> Counter[str]:
    """How often each path was answered anew."""
    found: Counter[str] = Counter()
    answer = RequestPipeline._answer

    async def counted(self: RequestPipeline, scope: Any, *rest: Any) -> None:
        found[scope["path"]] += 1
        await answer(self, scope, *rest)

    monkeypatch.setattr(RequestPipeline, "_answer", counted)
    return found


class Page:
    """A page of the console with a login."""

    def __init__(self, app: RequestPipeline) -> None:
        self.api = httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://hub")

    async def log_in(self, secret: str, role: str = "admin") -> Page:
        body = {"secret": SECRETS[f"{secret}_secret"], "role": role}
        answer = await self.api.post("/console/session", json=body, headers={"x-hub-console": "1"})
        answer.raise_for_status()
        return self

    async def nodes(self, path: str = NODES, **headers: str) -> list[str]:
        answer = await self.api.get(path, headers=headers)
        answer.raise_for_status()
        return [each["nodeId"] + (" draining" if each["draining"] else "") for each in answer.json()["nodes"]]


async def register(app: RequestPipeline, name: str) -> None:
    headers = {"x-hub-secret": SECRETS["node_secret"]}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://hub", headers=headers) as api:
        await publish(api, name)


async def test_pages_that_ask_for_the_same_list_at_once_share_one_answer(app, made):
    pages = [await Page(app).log_in("admin") for _ in range(20)]
    await register(app, "n1")
    async with listening(app, ADMIN):
        shown = await asyncio.gather(*(page.nodes() for page in pages))
        assert shown == [["n1"]] * 20
        assert made["/nodes"] == 1
        plain, neutral = (
            await pages[0].api.get(NODES),
            await pages[0].api.get(NODES, headers={"accept": "application/vnd.capacity-hub+json"}),
        )
        assert plain.headers["content-type"] != neutral.headers["content-type"]
        assert (int(plain.headers["x-hub-age-ms"]) >= 0, "x-hub-age-ms" in neutral.headers) == (True, False)


async def test_a_page_that_heard_of_an_event_is_shown_a_list_that_contains_it(app, made):
    first, second = await Page(app).log_in("admin"), await Page(app).log_in("admin")
    async with listening(app, ADMIN) as stream:
        for number in range(5):
            await register(app, f"n{number}")
            await stream.until(number + 1)
            expected = [f"n{each}" for each in range(number + 1)]
            assert [await first.nodes(), await second.nodes()] == [expected, expected]
    assert 5 <= made["/nodes"] < 10


async def test_a_page_that_changed_something_sees_the_change_in_its_next_list(app):
    page, other = await Page(app).log_in("admin"), await Page(app).log_in("admin")
    await register(app, "n1")
    async with listening(app, ADMIN):
        for _ in range(5):
            for verb, seen in (("drain", "n1 draining"), ("undrain", "n1")):
                await other.nodes()
                headers = {"x-hub-console": "1", "x-hub-reason": "calm"}
                answer = await page.api.post(f"/admin/nodes/n1/{verb}", json={}, headers=headers)
                answer.raise_for_status()
                assert [await page.nodes(), await other.nodes()] == [[seen], [seen]]


async def test_a_list_is_not_shared_between_credentials_or_roles(app, made):
    await register(app, "n1")
    async with listening(app, ADMIN):
        for secret, role in (("admin", "admin"), ("admin", "viewer"), ("runner", "operator")):
            await (await Page(app).log_in(secret, role)).nodes()
        assert made["/nodes"] == 3
        stranger = Page(app)
        assert (await stranger.api.get(NODES)).status_code == 401
        assert (await stranger.api.get(NODES, headers={"cookie": "hub_login=guessed"})).status_code == 401


async def test_a_refusal_is_not_shared_and_without_listeners_every_list_is_made_anew(app, made):
    page = await Page(app).log_in("admin")
    async with listening(app, ADMIN):
        for _ in range(2):
            assert (await page.api.get("/nodes?detail=1&limit=none")).status_code == 400
    assert made["/nodes"] == 2
    for name in ("n1", "n2"):
        await register(app, name)
        assert name in await page.nodes()
    assert made["/nodes"] == 4


async def test_an_outdated_list_is_shown_to_no_other_page(app, made, monkeypatch):
    page = await Page(app).log_in("admin")
    monkeypatch.setattr(shared_lists, "KEPT_S", 0)
    async with listening(app, ADMIN):
        for _ in range(3):
            await page.nodes()
    assert made["/nodes"] == 3


async def test_a_page_that_hangs_up_does_not_cancel_the_list_that_other_pages_wait_for(app, made, monkeypatch):
    pages = [await Page(app).log_in("admin") for _ in range(2)]
    await register(app, "n1")
    begun, go_on, answer = asyncio.Event(), asyncio.Event(), RequestPipeline._answer

    async def held(self: RequestPipeline, scope: Any, *rest: Any) -> None:
        begun.set()
        await go_on.wait()
        await answer(self, scope, *rest)

    async with listening(app, ADMIN):
        monkeypatch.setattr(RequestPipeline, "_answer", held)
        first = asyncio.create_task(pages[0].nodes())
        await begun.wait()
        second = asyncio.create_task(pages[1].nodes())
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        go_on.set()
        assert await second == ["n1"]

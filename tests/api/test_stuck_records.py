"""The page of stuck records shows what is stuck now, or the result of the last pass when the source is too slow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from hub.api.app import create_app
from hub.api.console.stuck_records import StuckNow
from hub.settings import Settings
from tests.world import settings_for


@pytest.fixture
async def app(redis_server) -> AsyncIterator[Any]:
    """An application that has opened its store and serves no caller yet."""
    found = create_app(settings_for(redis_url=redis_server.url), sweep=False)
    async with found.app.router.lifespan_context(found.app):
        yield found


class Orders:
    """Records of which so many are stuck, or that do not answer."""

    def __init__(self, stuck: int | None) -> None:
        self.stuck = stuck
        self.asked = 0

    async def count(self) -> int:
        self.asked += 1
        if self.stuck is None:
            await asyncio.Event().wait()
        return self.stuck or 0


async def the_overview(app: Any, redis: Any, stuck: int | None, *, found: int, level: str) -> dict[str, Any]:
    """Return the overview after a last pass that found so many records."""
    state = app.app.state
    state.sources = ["orders"]
    state.stuck = StuckNow({"orders": Orders(stuck)}, Settings())  # type: ignore[dict-item]
    redis.hset("hub:zombies:orders", mapping={"found": found, "level": level, "at": 1_750_000_000_000})
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://hub") as api:
        seen: dict[str, Any] = (await api.get("/console/overview")).json()
    return seen


@pytest.mark.parametrize(
    ("stuck", "found", "noted", "level"),
    [
        (0, 60, "critical", "ok"), (60, 0, "ok", "critical"), (11, 60, "critical", "warning"),
        (6, 5, "warning", "warning"), (4, 5, "warning", "ok"), (1, 0, "ok", "ok"),
    ],
    ids=["all brought back", "all of a sudden", "fewer", "grown, and more since", "grown, and fewer since", "one"],
)  # fmt: skip
async def test_the_level_follows_the_records_that_are_stuck_now(app, redis, stuck, found, noted, level):
    seen = await the_overview(app, redis, stuck, found=found, level=noted)
    [source] = seen["stuck"]
    assert (source["stuck"], source["found"], source["level"]) == (stuck, found, level)
    told = [each for each in seen["troubles"] if each["name"] == "stuck"]
    texts = [] if level == "ok" else [f"{stuck} records of orders began and never ended."]
    assert [(each["level"], each["text"]) for each in told] == [(level, text) for text in texts]


async def test_for_a_source_that_does_not_answer_the_numbers_of_the_last_pass_are_shown(app, redis):
    seen = await the_overview(app, redis, None, found=12, level="warning")
    [told] = [each for each in seen["troubles"] if each["name"] == "stuck"]
    assert told["text"].startswith("12 records of orders had begun and never ended at the last pass")
    assert [source["stuck"] for source in seen["stuck"]] == [None]


async def test_all_callers_share_one_count_and_a_reset_renews_it(app):
    orders, store = Orders(3), app.app.state.serving.hub.store
    now = StuckNow({"orders": orders}, Settings())  # type: ignore[dict-item]
    for _ in range(2):
        rows = await asyncio.gather(*(now.look(store, ["orders"], 30) for _ in range(20)))
        assert {row["stuck"] for [row] in rows} == {3}
    assert orders.asked == 1
    orders.stuck = 1
    now.forget("orders")
    [row] = await now.look(store, ["orders"], 30)
    assert row["stuck"] == 1

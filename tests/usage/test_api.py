"""`GET /usage`: what borrows through the API add to it, its bounds, and its refusals."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import date, timedelta
from typing import Any

import httpx
import pytest
from redis import Redis

from hub.settings.model import Settings
from tests.world import borrow, give_back, publish

LABEL = "gpu:a100"


@pytest.fixture
async def one(make_api: Any) -> AsyncIterator[tuple[httpx.AsyncClient, date]]:
    """A client of a hub with one slot, and the day."""
    async with make_api() as api:
        await publish(api, "n1", **{LABEL: ["s1"]})
        until = (await api.get("/usage")).json()["until"]
        yield api, date.fromisoformat(until)


async def test_leases_and_refusals_are_shown_by_each_kind_of_name(one: Any, redis: Redis) -> None:
    api, today = one
    first = (await borrow(api, LABEL)).json()
    assert (await borrow(api, LABEL, waitSeconds=0)).status_code == 503
    assert (await borrow(api, "gpu:none", waitForPool=False)).status_code == 404
    assert (await borrow(api, "not a label")).status_code == 400  # a mistake of the caller, not a refusal
    await give_back(api, LABEL, "s1", leaseToken=first["leaseToken"])
    await borrow(api, LABEL)  # this lease goes on
    found = {by: (await api.get(f"/usage?by={by}&since=0d")).json() for by in ("user", "team", "label", "slot", "node")}
    for by, answer in found.items():
        assert (answer["by"], answer["since"], answer["until"]) == (by, str(today), str(today))
        assert (answer["sum"]["leases"], answer["sum"]["refusals"]) == (2, 2)
        assert 0 < answer["sum"]["heldSeconds"] < 60
        [day] = answer["days"]
        assert (day["day"], day["leases"]) == (str(today), 2)
    rows = {
        by: {row["name"]: (row["leases"], row["refusals"]) for row in answer["usage"]} for by, answer in found.items()
    }
    assert rows == {
        "user": {"": (2, 2)}, "team": {"": (2, 2)}, "label": {LABEL: (2, 1), "gpu:none": (0, 1)},
        "slot": {"s1": (2, 0), "": (0, 2)}, "node": {"n1": (2, 0), "": (0, 2)},
    }  # fmt: skip


async def test_rows_come_in_pages_those_first_that_held_for_longest(one: Any, redis: Redis) -> None:
    api, today = one
    day = (today - date(1970, 1, 1)).days
    redis.hset(f"hub:usage:{day}:user", mapping={f"u{n}": f"1 {n * 1000} 0 0 0" for n in range(250)})
    first = (await api.get("/usage")).json()
    assert (first["total"], len(first["usage"]), first["usage"][0]["name"]) == (250, 100, "u249")
    last = (await api.get("/usage?limit=100&offset=200")).json()
    assert [row["name"] for row in last["usage"]] == [f"u{n}" for n in range(49, -1, -1)]
    assert first["sum"] == last["sum"] == {
        "leases": 250, "heldSeconds": sum(range(250)), "waitedSeconds": 0, "idleSeconds": 0, "refusals": 0,
    }  # fmt: skip


async def test_only_the_days_that_were_asked_for_count(one: Any, redis: Redis) -> None:
    api, today = one
    for ago in (1, 10, 40):
        redis.hset(f"hub:usage:{(today - date(1970, 1, 1)).days - ago}:user", "ann", "1 1000 0 0 0")
    for query, days in (
        ("", [10, 1]), ("since=9d", [1]), ("since=400d", [40, 10, 1]), ("since=9999d", [40, 10, 1]),
        (f"since=400d&until={today - timedelta(days=10)}", [40, 10]), ("since=12d&until=2d", [10]),
        (f"since={today - timedelta(days=1)}&until=2999-01-01", [1]), ("since=0d", []),
    ):  # fmt: skip
        found = (await api.get(f"/usage?{query}")).json()
        assert [each["day"] for each in found["days"]] == [str(today - timedelta(days=ago)) for ago in days], query


@pytest.mark.parametrize(
    ("query", "member"),
    [
        ("by=colour", "by"), ("by=", "by"), ("since=yesterday", "since"), ("since=", "since"), ("since=-1d", "since"),
        ("since=2026-02-30", "since"), ("until=20260101", "until"), ("since=1d&until=2d", "since"),
        ("since=\u0663d", "since"),
        ("since=2026-01-01T00:00:00Z", "since"), ("limit=0", "limit"), ("until=99999d", "until"),
    ],
)  # fmt: skip
async def test_a_query_that_cannot_be_read_is_refused_in_a_sentence(one: Any, query: str, member: str) -> None:
    answer = await one[0].get(f"/usage?{query}")
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
    assert (answer.json()["code"], answer.json()["member"]) == ("invalid-value", member)


def test_figures_are_kept_for_400_days_unless_it_is_said_otherwise(settings: Settings) -> None:
    assert settings.usage_days == 400

"""The numbers of passes that reports keep: summed by day, once for each pass, and for a bounded time."""

from __future__ import annotations

import pytest

from hub.errors import RecordsUnavailable
from hub.recovery.levels import Levels, RecordSweep
from hub.recovery.report import report
from hub.recovery.service import RecordSweeperService
from hub.recovery.webhook import Webhook
from tests.recovery.stuck import MadeUp

DAY_S = 86_400


def levels_of(hub):
    return Levels(hub.store, hub.settings, Webhook(None))


async def sweep(hub, records):
    return await RecordSweeperService(hub.store, hub.clock.hub_id, records, levels_of(hub)).sweep()


def today(redis):
    return redis.time()[0] // DAY_S


def move(redis, days, name="orders"):
    """Age what was kept today by so many days."""
    redis.rename(f"hub:zombie_day:{today(redis)}:{name}", f"hub:zombie_day:{today(redis) - days}:{name}")


@pytest.fixture
async def ticking(hub):
    await hub.clock.tick()
    return hub


async def test_passes_are_summed_by_day_and_source(ticking, redis):
    first = MadeUp(7)
    first.doomed = {"r0"}
    await sweep(ticking, first)
    await sweep(ticking, MadeUp(2))
    move(redis, 3)
    broken = MadeUp(5)
    broken.trouble = {"count": RecordsUnavailable("away")}
    await sweep(ticking, broken)
    await sweep(ticking, MadeUp(0, name="mails"))
    found = await report(ticking.store, ["orders", "mails", "never"], 7)
    mails, never, orders = found["sources"]
    assert [each["source"] for each in found["sources"]] == ["mails", "never", "orders"]
    assert {name: orders[name] for name in ("passes", "reset", "failed", "errors", "mostStuck", "worstLevel")} == {
        "passes": 3, "reset": 8, "failed": 1, "errors": 1, "mostStuck": 7, "worstLevel": "ok",
    }  # fmt: skip
    assert [(day["passes"], day["reset"], day["errors"], day["mostStuck"]) for day in orders["days"]] == [
        (2, 8, 0, 7), (1, 0, 1, None),
    ]  # fmt: skip
    assert (mails["passes"], mails["mostStuck"], mails["lastFound"]) == (1, 0, 0)
    assert (never["passes"], never["worstLevel"], never["days"]) == (0, None, [])


async def test_the_report_names_the_worst_level_of_a_day(ticking, redis):
    levels = levels_of(ticking)
    for number, found in enumerate((0, ticking.settings.zombie_critical_above + 1, 0)):
        await levels.note(f"p{number}", found, RecordSweep("orders"))
    (orders,) = (await report(ticking.store, ["orders"], 1))["sources"]
    assert (orders["worstLevel"], orders["lastLevel"], orders["lastFound"]) == ("critical", "ok", 0)


@pytest.mark.parametrize("found", [3, None])
async def test_a_pass_noted_twice_counts_once(ticking, redis, found):
    levels = levels_of(ticking)
    for _ in range(2):
        await levels.note("p1", found, RecordSweep("orders", reset=3, errors=1))
    (orders,) = (await report(ticking.store, ["orders"], 1))["sources"]
    assert (orders["passes"], orders["reset"], orders["errors"]) == (1, 3, 1)


async def test_a_report_covers_only_the_requested_days_and_old_days_expire(ticking, redis):
    await sweep(ticking, MadeUp(4))
    key = f"hub:zombie_day:{today(redis)}:orders"
    assert 91 * DAY_S < redis.ttl(key) <= 92 * DAY_S
    move(redis, 7)
    assert [(await report(ticking.store, ["orders"], days))["sources"][0]["reset"] for days in (7, 8)] == [0, 4]

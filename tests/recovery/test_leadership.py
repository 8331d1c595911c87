"""The leader of a source is one of the hubs that declare it; a source without one is reported."""

from __future__ import annotations

import re
import time
from pathlib import Path

import httpx
import pytest

from hub.cli import main
from hub.core import Hub
from hub.recovery.leadership import Leadership, known_sources
from hub.store.connection import open_store
from tests.recovery.databases import Database, sqlite
from tests.world import PATIENCE_S, HubProcess, settings_for, wait_until

__all__ = ["sqlite"]
QUICK = {"ZOMBIE_CLEANUP_INTERVAL_MINUTES": "0.005"}


def declare(folder: Path, name: str, database: Database) -> dict[str, str]:
    """Return the environment of a hub that declares this source."""
    path = folder / f"{name}.toml"
    path.write_text(f'[[sources]]\nname = "{name}"\nurl = "{database.url}"\ntable = "jobs"\n')
    return {"HUB_RECOVERY_FILE": str(path), **QUICK}


def last_pass(hub: HubProcess, source: str) -> float | None:
    """Return when a pass over a source was made last, as this hub shows it."""
    text = httpx.get(f"{hub.url}/metrics", timeout=PATIENCE_S).text
    found = re.search(rf'(?m)^hub_zombie_pass_timestamp_seconds{{source="{source}"}} (\S+)$', text)
    return float(found[1]) if found else None


def test_a_source_unknown_to_the_leader_is_cleaned_by_a_hub_that_declares_it(
    start_hub, sqlite: Database, tmp_path, redis
):
    """Make two hubs as in the middle of a rolling deployment."""
    sqlite.make_jobs()
    sqlite.add(1)
    leading = start_hub()
    wait_until(lambda: redis.hget("hub:store", "leader") is not None)
    declaring = start_hub(**declare(tmp_path, "orders", sqlite))
    wait_until(lambda: sqlite.statuses() == {"Pending": 1}, why=declaring.log)
    wait_until(lambda: last_pass(leading, "orders") is not None, why=leading.log)


def test_a_source_that_no_hub_declares_any_more_is_still_shown_with_its_last_pass(
    start_hub, sqlite: Database, tmp_path, redis, redis_server, monkeypatch, capsys
):
    sqlite.make_jobs()
    left = start_hub()
    gone = start_hub(**declare(tmp_path, "orders", sqlite))
    wait_until(lambda: last_pass(left, "orders") is not None, why=gone.log)
    gone.kill()
    redis.delete("hub:zombies:orders")  # as if it had died before its first pass
    since = last_pass(left, "orders")
    assert since is not None
    assert time.time() - 600 < since < time.time()
    monkeypatch.setenv("HUB_REDIS_URL", redis_server.url)
    assert main(["recovery", "forget", "mails"]) == 2
    assert capsys.readouterr().err == "hub: No source 'mails' is known; known are orders.\n"
    assert main(["recovery", "forget", "orders"]) == 0
    assert capsys.readouterr().out == "orders is forgotten; a hub that declares it makes it known again.\n"
    assert last_pass(left, "orders") is None


@pytest.fixture
async def offices(hub: Hub, redis_server):
    """Make two hubs that tick, with the same source."""
    async with open_store(settings_for(redis_server.url)) as store:
        other = Hub(store, hub.settings)
        await hub.clock.tick()
        await other.clock.tick()
        yield [Leadership(each.store, each.clock.hub_id, "orders", hub.settings) for each in (hub, other)]


async def test_one_hub_is_the_leader_until_it_stops_ticking(hub, offices, redis):
    here, there = offices
    assert [await here.taken(), await there.taken(), await here.taken()] == [True, False, True]
    redis.zincrby("hub:hubs", -3001, hub.clock.hub_id)
    assert [await there.taken(), await here.taken()] == [True, False]


async def test_a_source_is_remembered_for_a_week_after_its_last_declaration(hub, offices, redis):
    await offices[0].taken()
    week_ms = 7 * 86_400_000
    now_ms = redis.time()[0] * 1000
    redis.hset("hub:zombie_sources", mapping={"old": f"5 {now_ms - week_ms - 60_000}", "late": f"5 {now_ms - 60_000}"})
    await Leadership(hub.store, hub.clock.hub_id, "new", hub.settings).taken()
    assert set(await known_sources(hub.store)) == {"orders", "late", "new"}
    assert (await known_sources(hub.store))["late"] == 0.005
    assert 0 < redis.pttl("hub:zombie_office:orders") <= week_ms

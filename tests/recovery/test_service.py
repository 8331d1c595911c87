"""The service that brings stuck records back, in `hub serve` processes: two hubs on one Redis, and a PostgreSQL that is
killed under them."""

from __future__ import annotations

import json
import re
import signal
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest
from sqlalchemy import select

from hub.api.app import create_app
from hub.core import Hub
from hub.recovery.levels import Levels
from hub.recovery.outcomes import Outcome, Outcomes, Parked, stamp
from hub.recovery.service import RecordSweeperService
from hub.recovery.webhook import Webhook
from tests.recovery.databases import Database
from tests.world import PATIENCE_S, HubProcess, eventually, settings_for, wait_until

QUICK = {"ZOMBIE_CLEANUP_INTERVAL_MINUTES": "0.005", "ZOMBIE_WARNING_ABOVE": "5"}
TIME = r"[\d.]+"


def declare(folder: Path, **tables: str) -> Path:
    """Return a file of sources: name -> `url table`."""
    path = folder / "recovery.toml"
    path.write_text(
        "".join(
            f'[[sources]]\nname = "{name}"\nurl = "{url}"\ntable = "{table}"\nerror_field = "error"\nbatch_size = 3\n'
            for name, (url, table) in ((name, place.split()) for name, place in tables.items())
        )
    )
    return path


def lines(hub: HubProcess, event: str, source: str = "", facts: str = "") -> list[str]:
    """Return the lines of an event, of a source and with such facts."""
    return lines_in(hub.log(), event, source, facts)


def lines_in(log: str, event: str, source: str = "", facts: str = "") -> list[str]:
    """Read the lines of a log that was read before."""
    wanted = re.compile(rf" {event} (.*\b)?source={source}\b.*{facts}")
    return [line for line in log.splitlines() if wanted.search(line)]


def scraped(hub: HubProcess, name: str) -> dict[str, float]:
    """Return the samples of a metric: labels -> value."""
    text = httpx.get(f"{hub.url}/metrics", timeout=PATIENCE_S).text
    return {labels: float(value) for labels, value in re.findall(rf"(?m)^{name}\{{(.*)\}} (\S+)$", text)}


@pytest.fixture
def heard() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield an address for alerts, and the list of the alerts that were posted there."""
    found: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            found.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/hush-hush", found
        server.shutdown()
        thread.join()


def test_two_hubs_clean_their_sources_while_servers_are_killed(
    start_hub: Callable[..., HubProcess], pg: Database, sqlite: Database, tmp_path, heard, redis
):
    for database in (pg, sqlite):
        database.make_jobs()
        database.add(*range(7))
        database.add(7, 8, age_s=3000)
    away = f"{pg.url}/nowhere"
    path = declare(
        tmp_path, orders=f"{pg.url} jobs", lite=f"{sqlite.url} jobs", misfit=f"{pg.url} new", away=f"{away} x"
    )
    settings = {**QUICK, "HUB_RECOVERY_FILE": str(path), "HUB_ZOMBIE_WEBHOOK_URL": heard[0]}
    first = start_hub(**settings)
    _cleaned_beside_broken_ones(first, pg, sqlite)
    leader = redis.hget("hub:store", "leader")
    second = start_hub(**settings)
    _told_and_shown(first, second, heard[1])
    # One that stands still for two seconds is rightly succeeded.
    assert lines(second, "record sweep") == [] or redis.hget("hub:store", "leader") != leader
    _mended(first, second, pg)
    _killed_in_the_middle_of_a_pass(first, second, pg, redis)
    _database_killed(second, pg)
    _stopped_while_the_database_hangs(second, pg, redis)
    assert "Traceback" not in first.log() + second.log()
    assert "hush" not in first.log() + second.log()


def _cleaned_beside_broken_ones(first: HubProcess, pg: Database, sqlite: Database) -> None:
    for name, database in (("orders", pg), ("lite", sqlite)):
        wait_until(lambda: database.statuses() == {"Pending": 7, "Processing": 2}, why=first.log)  # noqa: B023
        wait_until(lambda: lines(first, "record sweep", name, "found=7"), why=first.log)  # noqa: B023
        (told,) = lines(first, "record sweep", name, "reset=7")
        assert re.search(rf"Z INFO  record sweep source={name} found=7 reset=7 errors=0 elapsed_ms={TIME}$", told)
        (warned,) = lines(first, "records reset", name)
        assert re.search(r"Z WARNING records reset .*reset=7 failed=0 ids=\S+ oldest_s=72\d\d$", warned)
        wait_until(lambda: f"record sweep source={name} errors=0 " in first.log(), why=first.log)  # noqa: B023
    assert pg.jobs()["0"].error == "Stuck: not updated within the threshold"
    for name, why in (("misfit", "table"), ("away", "url")):
        wait_until(lambda: len(lines(first, "record sweep", name, "errors=1")) >= 2, why=first.log)  # noqa: B023
        log = first.log()
        refused = lines_in(log, "source sweep failed", name)
        assert all(f"source {name}, {why}: " in line and " ERROR " in line for line in refused)
        assert abs(len(refused) - len(lines_in(log, "record sweep", name))) <= 1, "one for each pass"


def _told_and_shown(first: HubProcess, second: HubProcess, heard: list[dict[str, Any]]) -> None:
    assert len(lines(first, "zombie alert", "orders", "alert=warning before=ok")) == 1
    wait_until(lambda: len(heard) == 4, why=first.log)
    assert sorted((alert["source"], alert["before"], alert["level"]) for alert in heard) == [
        ("lite", "ok", "warning"), ("lite", "warning", "ok"), ("orders", "ok", "warning"), ("orders", "warning", "ok"),
    ]  # fmt: skip
    for hub in (first, second):
        shown = {'source="orders"': 0, 'source="lite"': 0}
        wait_until(lambda: scraped(hub, "hub_zombie_records") == shown, why=hub.log)  # noqa: B023
        assert scraped(hub, "hub_zombie_level") == {'source="orders"': 0, 'source="lite"': 0}
    assert scraped(first, "hub_zombies_reset_total")['outcome="reset",source="orders"'] == 7
    passes = scraped(first, "hub_zombie_passes_total")
    for name in ("orders", "lite"):
        assert passes[f'result="repaired",source="{name}"'] == 1
        assert passes[f'result="clean",source="{name}"'] >= 1
    assert passes['result="failed",source="misfit"'] >= 2 <= passes['result="failed",source="away"']
    errors = scraped(first, "hub_zombie_errors_total")
    assert errors['source="orders"'] == errors['source="lite"'] == 0
    assert errors['source="misfit"'] >= 2 <= errors['source="away"']


def _mended(first: HubProcess, second: HubProcess, pg: Database) -> None:
    pg.execute("CREATE TABLE new (LIKE jobs INCLUDING ALL)")
    pg.execute(f"INSERT INTO new (id, status, updated_at) VALUES (1, 'Processing', {pg.ago(3601)})")
    wait_until(lambda: any(lines(hub, "record sweep", "misfit", "reset=1") for hub in (first, second)), why=first.log)


def _killed_in_the_middle_of_a_pass(first: HubProcess, second: HubProcess, pg: Database, redis: Any) -> None:
    with _Locked(pg):
        pg_stuck = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        wait_until(lambda: pg.execute(pg_stuck)[0][0] >= 1, why=first.log)
        assert redis.get("hub:zombie_turn:orders")
        first.signal(signal.SIGKILL)
        first.process.wait()
        wait_until(lambda: bool(lines(second, "record sweep", "lite")), why=second.log)
    pg.add(10, 11, 12, 13)
    wait_until(lambda: bool(lines(second, "record sweep", "orders")), why=second.log)
    wait_until(lambda: pg.statuses() == {"Pending": 11, "Processing": 2}, why=second.log)


class _Locked:
    """A table of jobs that is locked, so that every query of it waits."""

    def __init__(self, pg: Database) -> None:
        self._pg = pg
        self._free = threading.Event()
        self._held = threading.Event()
        self._thread = threading.Thread(target=self._hold)

    def _hold(self) -> None:
        import asyncio

        async def hold() -> None:
            connection = await asyncpg.connect(host=str(self._pg.place.folder), user="postgres", database=self._pg.name)
            async with connection.transaction():
                await connection.execute("LOCK TABLE jobs IN ACCESS EXCLUSIVE MODE")
                self._held.set()
                await asyncio.to_thread(self._free.wait)
            await connection.close()

        asyncio.run(hold())

    def __enter__(self) -> None:
        self._thread.start()
        assert self._held.wait(PATIENCE_S)

    def __exit__(self, *_: object) -> None:
        self._free.set()
        self._thread.join()


def _database_killed(hub: HubProcess, pg: Database) -> None:
    wait_until(lambda: scraped(hub, "hub_zombie_records")['source="orders"'] == 0, why=hub.log)
    before = len(lines(hub, "source sweep failed", "orders"))
    pg.place.kill()
    try:
        wait_until(lambda: len(lines(hub, "source sweep failed", "orders")) > before, why=hub.log)
        assert hub.process.poll() is None
        seen = len(lines(hub, "record sweep", "lite"))
        wait_until(lambda: len(lines(hub, "record sweep", "lite")) > seen, why=hub.log)
    finally:
        pg.place.start()
    pg.add(20, 21)
    wait_until(lambda: pg.statuses() == {"Pending": 13, "Processing": 2}, why=hub.log)


def _stopped_while_the_database_hangs(hub: HubProcess, pg: Database, redis: Any) -> None:
    pg.place.pause()
    try:
        wait_until(lambda: redis.get("hub:zombie_turn:orders") is not None, why=hub.log)
        seen = len(lines(hub, "record sweep", "lite"))
        wait_until(lambda: len(lines(hub, "record sweep", "lite")) > seen + 2, why=hub.log)
        assert redis.get("hub:zombie_turn:orders") is not None, "it waits, and the others do not"
        hub.signal(signal.SIGTERM)
        assert hub.process.wait(PATIENCE_S) == 0
    finally:
        pg.place.resume()
    assert redis.keys("hub:zombie_turn:*") == []


def test_several_processes_of_a_hub_clean_once_and_show_the_same(
    start_hub: Callable[..., HubProcess], sqlite: Database, tmp_path, redis
):
    sqlite.make_jobs()
    sqlite.add(*range(6))
    path = declare(tmp_path, lite=f"{sqlite.url} jobs")
    hub = start_hub(HUB_WORKERS="2", HUB_RECOVERY_FILE=str(path), ZOMBIE_CLEANUP_INTERVAL_MINUTES="60")
    leader = redis.hget("hub:store", "leader")
    wait_until(lambda: bool(lines(hub, "record sweep", "lite", "found=6 reset=6")), why=hub.log)
    for _ in range(10):
        shown = scraped(hub, "hub_zombie_records")
        assert shown == {'source="lite"': 6} or len(lines(hub, "record sweep")) > 1
        assert scraped(hub, "hub_zombies_reset_total")['outcome="reset",source="lite"'] == 6
    # One that stands still for two seconds is rightly succeeded, by one that looks at once.
    assert len(lines(hub, "record sweep")) == 1 or redis.hget("hub:store", "leader") != leader
    hub.signal(signal.SIGTERM)
    assert hub.process.wait(PATIENCE_S) == 0


@pytest.mark.parametrize(
    ("environment", "text", "sentence"),
    [
        (
            {},
            'table = "t"\nurl = "postgresql+psycopg2://u:hush@h/d"\n',
            r"recovery.toml, source orders, url: .*asyncpg",
        ),
        (
            {},
            'table = "t"\nurl = "sqlite+aiosqlite:///x"\nthreshold_minutes = 0\n',
            "source orders, threshold_minutes: ",
        ),
        ({"ZOMBIE_STUCK_THRESHOLD_MINUTES": "0"}, None, "HUB_ZOMBIE_STUCK_THRESHOLD_MINUTES=0 would take every record"),
        ({"HUB_ZOMBIE_WEBHOOK_URL": "hush.example/hush"}, None, "HUB_ZOMBIE_WEBHOOK_URL is no address"),
    ],
    ids=["no asynchronous driver", "no threshold", "no threshold anywhere", "no webhook"],
)
def test_a_hub_with_contradictory_recovery_settings_does_not_start(redis_server, tmp_path, environment, text, sentence):
    path = tmp_path / "recovery.toml"
    path.write_text('[[sources]]\nname = "orders"\n' + text if text else "")
    hub = HubProcess({"HUB_REDIS_URL": redis_server.url, "HUB_RECOVERY_FILE": str(path), **environment})
    try:
        code = hub.process.wait(PATIENCE_S)
    finally:
        hub.kill()
    last = hub.log().splitlines()[-1]
    assert code == 1
    assert last.startswith("hub: ")
    assert re.search(sentence, last)
    assert "Traceback" not in hub.log()
    assert "hush" not in hub.log()


@pytest.mark.parametrize("enabled", [True, False], ids=["on", "off"])
async def test_the_cleanup_can_be_switched_off(redis_server, sqlite: Database, tmp_path, caplog, enabled):
    caplog.set_level("INFO")
    sqlite.make_jobs()
    sqlite.add(1)
    path = declare(tmp_path, lite=f"{sqlite.url} jobs")
    app = create_app(settings_for(redis_server.url, recovery_file=path, zombie_cleanup_enabled=enabled))

    async def logged(event: str) -> bool:
        return any(record.msg["event"] == event for record in caplog.records if isinstance(record.msg, dict))

    async with app.app.router.lifespan_context(app.app):
        await eventually(lambda: logged("record sweep" if enabled else "recovery off"))
        await eventually(lambda: logged("task sweep"))
    assert sqlite.statuses() == {"Pending" if enabled else "Processing": 1}
    assert await logged("record sweep") == enabled


async def test_a_record_with_a_parked_outcome_gets_it_instead_of_a_reset(hub: Hub, database: Database, opened):
    database.make_jobs()
    database.add(1, 2)
    records = opened(database.source())
    rows = await records.rows()
    async with records.engine.connect() as connection:
        claimed = (await connection.execute(select(stamp(rows)).where(rows.id == 1))).scalar_one()
    outcomes = Outcomes(hub.store.client, hub.store.keys, "jobs")
    await outcomes.park(Parked("1", (claimed,), Outcome("Done")))
    sweeper = RecordSweeperService(hub.store, "h", records, Levels(hub.store, hub.settings, Webhook(None)))
    done = await sweeper.sweep()
    assert (done.written, done.found, done.reset, done.errors) == (1, 1, 1, 0)
    assert database.statuses() == {"Done": 1, "Pending": 1}
    assert await outcomes.count() == 0


async def test_a_parked_outcome_whose_database_is_away_waits_and_is_logged_once(
    hub: Hub, sqlite: Database, opened, caplog
):
    sqlite.make_jobs()
    records = opened(sqlite.source())
    outcomes = Outcomes(hub.store.client, hub.store.keys, "jobs")
    await outcomes.park(Parked("1", ("2026-01-01",), Outcome("Done")))
    sqlite.place.rename(sqlite.place.with_name("elsewhere"))
    sqlite.place.mkdir()
    sweeper = RecordSweeperService(hub.store, "h", records, Levels(hub.store, hub.settings, Webhook(None)))
    assert (await sweeper.sweep()).errors == 1
    assert [each.msg["event"] for each in caplog.records if each.levelname == "ERROR"] == ["source sweep failed"]
    assert await outcomes.count() == 1


async def test_records_of_every_kind_are_reset_by_one_hub(redis_server, redis, sqlite: Database, tmp_path, caplog):
    sqlite.make_jobs()
    sqlite.add(1)
    redis.sadd("mails", "m1")
    redis.hset("mail:m1", mapping={"status": "Processing", "updated_at": redis.time()[0] - 7200})
    path = declare(tmp_path, lite=f"{sqlite.url} jobs")
    path.write_text(
        path.read_text()
        + '[[sources]]\nname = "mails"\nkind = "redis"\nindex = "mails"\nkey = "mail:{id}"\n'
        + '[[sources]]\nname = "tasks"\nkind = "tasks"\n'
    )
    caplog.set_level("INFO")
    app = create_app(settings_for(redis_server.url, recovery_file=path))

    async def told() -> bool:
        found = [
            each.msg for each in caplog.records if isinstance(each.msg, dict) and each.msg["event"] == "record sweep"
        ]
        return {(each["source"], each.get("reset", 0), each["errors"]) for each in found} == {
            ("lite", 1, 0), ("mails", 1, 0), ("tasks", 0, 0),
        }  # fmt: skip

    async with app.app.router.lifespan_context(app.app):
        await eventually(told)
    assert sqlite.statuses() == {"Pending": 1}
    assert redis.hget("mail:m1", "status") == "Pending"

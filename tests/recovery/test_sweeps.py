"""A pass over stuck records: resets, log lines, turns of hubs, failures, and alerts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from hub.core import Hub
from hub.doctor import examine
from hub.errors import RecordsUnavailable, SourceRefused
from hub.observability import metrics
from hub.recovery import service as service_module
from hub.recovery.levels import Levels
from hub.recovery.service import RecordSweeperService
from hub.store.connection import open_store
from hub.sweeping.loop import SweepLoop
from hub.sweeping.noted import noted
from tests.recovery.stuck import MadeUp, WithParked
from tests.world import eventually, settings_for

Lines = Callable[[str], list[dict[str, Any]]]


class Posted:
    """A webhook that only remembers."""

    def __init__(self) -> None:
        self.alerts: list[dict[str, Any]] = []

    def post(self, alert: dict[str, Any]) -> None:
        self.alerts.append(alert)


@pytest.fixture
def posted() -> Posted:
    return Posted()


@pytest.fixture
async def hubs(hub: Hub, redis_server) -> AsyncIterator[tuple[Hub, Hub]]:
    """Two hubs of one store, both of which tick."""
    async with open_store(settings_for(redis_server.url)) as store:
        other = Hub(store, hub.settings)
        await hub.clock.tick()
        await other.clock.tick()
        yield hub, other


@pytest.fixture
def lines(caplog) -> Lines:
    """Return what was logged so far of an event."""
    caplog.set_level("INFO")
    return lambda event: [record.msg for record in caplog.records if record.msg["event"] == event]


def service(hub: Hub, records: MadeUp, posted: Posted | None = None, **settings: Any) -> RecordSweeperService:
    levels = Levels(hub.store, hub.settings.model_copy(update=settings), posted or Posted())
    return RecordSweeperService(hub.store, hub.clock.hub_id, records, levels)


def loop_of(hub: Hub, sweeper: RecordSweeperService) -> SweepLoop:
    return SweepLoop("record", 900, hub.clock, noted(hub.store, "record", sweeper.sweep))


def counted(name: str, **labels: str) -> float:
    return metrics.registry.get_sample_value(name, labels) or 0


async def test_a_pass_resets_all_stuck_records_batch_by_batch(hub, lines):
    records = MadeUp(1203, batch_size=500)
    records.doomed = {"r3", "r1100"}
    done = await service(hub, records).sweep()
    assert (done.found, done.reset, done.failed, done.errors) == (1203, 1201, 2, 0)
    assert records.calls == ["count", "look", "reset", "reset", "reset", "reset"]
    (warning,) = lines("records reset")
    assert warning["level"] == "warning"
    assert (warning["source"], warning["reset"], warning["failed"], warning["oldest_s"]) == ("orders", 1201, 2, 7200)
    assert sorted(warning["ids"].split(",")) == sorted(["r0", "r1", "r2", "r4", "r5", "r6", "r7", "r8", "r9", "r10"])


async def test_a_pass_without_stuck_records_changes_nothing_and_logs_its_line(hub, lines):
    records = MadeUp(0)
    await loop_of(hub, service(hub, records)).once()
    await loop_of(hub, service(hub, records)).once()
    assert records.calls == ["count", "count"]
    assert lines("records reset") == []
    told = lines("record sweep")
    assert [line["level"] for line in told] == ["info", "info"]
    assert (told[0]["source"], told[0]["errors"]) == ("orders", 0)
    assert told[0].keys().isdisjoint({"found", "reset", "failed"})  # numbers that are 0
    assert told[0]["elapsed_ms"] > 0


async def test_a_pass_is_bounded_and_the_next_one_continues(hub, monkeypatch):
    monkeypatch.setattr(service_module, "BATCHES_MAX", 3)
    records = MadeUp(40, batch_size=10)
    assert (await service(hub, records).sweep()).reset == 30
    assert (await service(hub, records).sweep()).reset == 10


async def test_resets_are_counted_and_written_into_the_history(hub, redis):
    records = MadeUp(12)
    records.doomed = {"r0"}
    before = [counted("hub_zombies_reset_total", source="orders", outcome=each) for each in ("reset", "failed")]
    await loop_of(hub, service(hub, records)).once()
    after = [counted("hub_zombies_reset_total", source="orders", outcome=each) for each in ("reset", "failed")]
    assert [now - then for now, then in zip(after, before, strict=True)] == [11, 1]
    await loop_of(hub, service(hub, records)).once()
    (event,) = [facts for _, facts in redis.xrange("hub:history") if facts["event"] == "sweep.record"]
    assert (event["source"], event["found"], event["reset"], event["failed"]) == ("orders", "12", "11", "1")


@pytest.mark.parametrize(
    ("call", "error", "why", "found", "reset"),
    [
        ("count", RecordsUnavailable("The database is away."), "The database is away.", 0, 0),
        ("count", SourceRefused("source orders, table: there is none."), "source orders, table: there is none.", 0, 0),
        ("look", RecordsUnavailable("Gone."), "Gone.", 9, 0),
        ("reset", ValueError("first\nsecond"), "ValueError: first", 9, 0),
    ],
)
async def test_a_failing_pass_logs_one_error_line_and_the_next_pass_runs(hub, lines, call, error, why, found, reset):
    records = MadeUp(9)
    records.trouble = {call: error}
    before = counted("hub_zombie_errors_total", source="orders")
    await loop_of(hub, service(hub, records)).once()
    (told,) = lines("source sweep failed")
    assert (told["level"], told["source"], told["why"]) == ("error", "orders", why)
    (summary,) = lines("record sweep")
    counts = {"found": found, "reset": reset, "errors": 1}
    assert {name: summary[name] for name in counts if name in summary} == {name: n for name, n in counts.items() if n}
    assert counted("hub_zombie_errors_total", source="orders") - before == 1
    records.trouble = {}
    assert (await service(hub, records).sweep()).reset == 9


async def test_a_failing_batch_does_not_hide_the_batches_before_it(hub, lines):
    records = MadeUp(30, batch_size=10)

    async def break_the_third() -> None:
        if records.calls.count("reset") == 3:
            raise RecordsUnavailable("Cut.")

    records.before = {"reset": break_the_third}
    done = await service(hub, records).sweep()
    assert (done.found, done.reset, done.errors) == (30, 20, 1)
    assert lines("records reset")[0]["reset"] == 20
    assert len(records.stuck) == 10


@pytest.mark.parametrize("call", ["count", "look", "reset", "write_parked"])
async def test_a_source_that_hangs_is_cut_off(hub, lines, monkeypatch, call):
    monkeypatch.setattr(service_module, "STEP_S", 0.02)
    records = WithParked(3)
    records.before = {call: asyncio.Event().wait}
    done = await service(hub, records).sweep()
    assert (done.reset, done.errors) == (0, 1)
    assert lines("source sweep failed")[0]["why"] == "It did not answer within 0.02 s."
    assert records.calls[-1] == call


async def test_all_parked_outcomes_are_written_before_records_are_looked_at(hub):
    records = WithParked(2)
    records.parked = 5
    before = counted("hub_zombie_outcomes_written_total", source="orders")
    done = await service(hub, records).sweep()
    assert (done.written, done.reset) == (5, 2)
    assert records.calls[:4] == [*["write_parked"] * 3, "count"]
    assert counted("hub_zombie_outcomes_written_total", source="orders") - before == 5


async def test_an_unreadable_parked_outcome_does_not_keep_other_records_stuck(hub, lines):
    records = WithParked(2)
    records.trouble = {"write_parked": ValueError("no outcome")}
    done = await service(hub, records).sweep()
    assert (done.reset, done.errors) == (2, 1)
    assert len(lines("source sweep failed")) == 1


async def test_parked_outcomes_whose_database_is_away_wait_and_are_logged_once(hub, lines):
    records = WithParked(2)
    records.trouble = {"write_parked": RecordsUnavailable("Away.")}
    done = await service(hub, records).sweep()
    assert (done.reset, done.errors) == (0, 1)
    assert records.calls == ["write_parked"]
    assert len(lines("source sweep failed")) == 1


async def test_one_hub_at_a_time_cleans_a_source_while_others_clean_other_sources(hubs, redis, lines):
    here, there = hubs
    records, held = MadeUp(5), asyncio.Event()
    records.before = {"reset": held.wait}
    passing = asyncio.create_task(service(here, records).sweep())
    await eventually(lambda: _true("reset" in records.calls))
    assert redis.get("hub:zombie_turn:orders").split()[0] == here.clock.hub_id
    assert 60_000 < redis.pttl("hub:zombie_turn:orders") <= 90_000
    taken = MadeUp(5)
    assert not await loop_of(there, service(there, taken)).once()
    assert (taken.calls, lines("record sweep")) == ([], [])
    assert (await service(there, MadeUp(5, name="mails")).sweep()).reset == 5
    held.set()
    assert (await passing).reset == 5
    assert redis.exists("hub:zombie_turn:orders") == 0
    assert (await service(there, taken).sweep()).reset == 5


async def test_another_hub_cleans_a_source_once_the_hub_whose_turn_it_was_is_dead(hubs, redis):
    here, there = hubs
    begin = here.store.script("recovery/begin")
    assert await begin(source="orders", hub_id=here.clock.hub_id, pass_id="p1", ttl_ms=90_000) == ["ok"]
    assert await service(there, MadeUp(5)).sweep() is None
    redis.zincrby("hub:hubs", -3001, here.clock.hub_id)
    assert (await service(there, MadeUp(5)).sweep()).reset == 5


async def test_a_pass_whose_turn_was_taken_by_another_hub_ends_after_its_batch(hubs, redis):
    here, there = hubs
    records = MadeUp(30, batch_size=10)
    mine = f"{there.clock.hub_id} p2"

    async def lose() -> None:
        redis.set("hub:zombie_turn:orders", mine)

    records.before = {"reset": lose}
    assert (await service(here, records).sweep()).reset == 10
    assert redis.get("hub:zombie_turn:orders") == mine


async def test_the_turn_is_renewed_before_every_step(hub, redis):
    records = MadeUp(5)
    left: list[int] = []

    async def note_and_shorten() -> None:
        left.append(redis.pttl("hub:zombie_turn:orders"))
        redis.pexpire("hub:zombie_turn:orders", 30_000)

    records.before = dict.fromkeys(("count", "look", "reset"), note_and_shorten)
    await service(hub, records).sweep()
    assert len(left) == 4
    assert min(left) > 80_000


async def test_the_keys_of_a_pass_are_no_finding_of_the_doctor(hub, redis):
    await hub.clock.tick()
    records = MadeUp(5)
    records.before = {"reset": asyncio.Event().wait}
    passing = asyncio.create_task(service(hub, records).sweep())
    await service(hub, MadeUp(5, name="mails")).sweep()
    await eventually(lambda: _true("reset" in records.calls))
    assert set(redis.keys("hub:zombie*")) == {
        "hub:zombie_turn:orders", "hub:zombies:mails", "hub:zombie_counts:mails",
        f"hub:zombie_day:{redis.time()[0] // 86_400}:mails",
    }  # fmt: skip
    assert await examine(hub.store, settings=hub.settings, pause_s=0.05) == []
    passing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await passing


async def test_a_pass_that_is_cancelled_gives_its_turn_back(hub, redis):
    await hub.clock.tick()
    records = MadeUp(5)
    records.before = {"reset": asyncio.Event().wait}
    passing = asyncio.create_task(service(hub, records).sweep())
    await eventually(lambda: _true("reset" in records.calls))
    passing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await passing
    assert redis.exists("hub:zombie_turn:orders") == 0


async def test_when_the_store_is_lost_a_pass_reports_what_it_did_before(hub, lines):
    records = MadeUp(5, batch_size=2)

    async def lose_the_store() -> None:
        hub.store.set_away()

    records.before = {"reset": lose_the_store}
    loop = loop_of(hub, service(hub, records))
    assert await loop.once()
    (summary,) = lines("record sweep")
    assert (summary["reset"], summary["errors"]) == (2, 0)
    assert lines("records reset")[0]["reset"] == 2
    records.calls.clear()
    hub.store.set_away()
    assert not await loop.once()
    assert records.calls == []
    hub.store.away = False
    records.before = {}
    assert await loop.once()
    assert records.stuck == []


async def test_a_hub_that_lost_the_turn_to_clean_asks_again_soon_and_the_winner_after_the_interval(hubs, monkeypatch):
    here, there = hubs
    here.clock.leads.set()
    begin = there.store.script("recovery/begin")
    await begin(source="orders", hub_id=there.clock.hub_id, pass_id="p1", ttl_ms=90_000)
    pauses: list[float] = []

    async def pause(self: SweepLoop, wished_s: float) -> float:
        pauses.append(wished_s)
        if len(pauses) == 2:
            await there.store.script("recovery/end")(source="orders", hub_id=there.clock.hub_id, pass_id="p1")
        if len(pauses) == 4:
            raise asyncio.CancelledError
        return wished_s

    monkeypatch.setattr(SweepLoop, "_pause", pause)
    with pytest.raises(asyncio.CancelledError):
        await loop_of(here, service(here, MadeUp())).run()
    assert pauses[:2] == [5, 5]
    assert pauses[2:] == pytest.approx([900, 900], abs=30)  # less the time that the pass took


async def test_a_source_that_cannot_be_closed_is_only_logged(hub, lines):
    records = MadeUp()
    records.trouble = {"close": OSError("no")}
    await service(hub, records).close()
    assert lines("source connections not closed")[0]["why"] == "OSError: no"


async def _true(condition: bool) -> bool:
    return condition


class TestLevels:
    """Kept in the store for all hubs, told once when they change, and measured over a window."""

    @staticmethod
    async def passes(hub: Hub, posted: Posted, *found: int, **settings: Any) -> list[tuple[str, str]]:
        """Passes that find so many, each of a hub that knows nothing of the others; the changes that were told."""
        seen = len(posted.alerts)
        for number in found:
            assert (await service(hub, MadeUp(number), posted, **settings).sweep()).found == number
        return [(alert["before"], alert["level"]) for alert in posted.alerts[seen:]]

    async def test_a_change_of_level_is_logged_and_posted_once(self, hub, posted, lines, redis):
        assert await self.passes(hub, posted, 0, 12, 12, 60, 60, 12, 0, 0) == [
            ("ok", "warning"), ("warning", "critical"), ("critical", "warning"), ("warning", "ok"),
        ]  # fmt: skip
        assert [line["level"] for line in lines("zombie alert")] == ["warning", "critical", "warning"]
        (over,) = lines("zombie alert over")
        assert (over["level"], over["alert"], over["source"], over["found"]) == ("info", "ok", "orders", 0)
        alert = posted.alerts[1]
        assert {name: alert[name] for name in alert if name != "at"} == {
            "source": "orders", "level": "critical", "before": "warning", "found": 60,
            "reason": "60 records are stuck, more than 50",
        }  # fmt: skip
        assert alert["at"].endswith("Z")
        assert redis.hgetall("hub:zombies:orders").items() >= {"found": "0", "level": "ok", "before": "ok"}.items()

    async def test_growth_is_measured_from_the_lowest_number_within_the_window(self, hub, posted, redis):
        assert await self.passes(hub, posted, 9, 3, 5) == []
        assert redis.zrange("hub:zombie_counts:orders", 0, -1) == ["3", "5"]
        assert await self.passes(hub, posted, 6) == [("ok", "warning")]
        assert await self.passes(hub, posted, 5) == [("warning", "ok")]
        assert redis.zrange("hub:zombie_counts:orders", 0, -1) == ["3", "5"]
        redis.zincrby("hub:zombie_counts:orders", -3_601_000, "3")
        assert await self.passes(hub, posted, 9, 10) == [("ok", "warning")]
        assert redis.zrange("hub:zombie_counts:orders", 0, -1) == ["5", "9", "10"]
        assert 3_500_000 < redis.pttl("hub:zombie_counts:orders") <= 3_600_000

    async def test_growth_that_continues_is_reported_again(self, hub, posted, redis):
        """Measured from the number that was told last; a level that stays is no reason to keep silent."""
        assert await self.passes(hub, posted, 2, 4, 7, 8, 15) == [
            ("ok", "warning"), ("warning", "warning"),
        ]  # fmt: skip
        assert posted.alerts[-1]["reason"] == "8 records are stuck, up from 4 within 60 min"
        assert await self.passes(hub, posted, 16, 31, 51, 60, 102) == [
            ("warning", "warning"), ("warning", "critical"), ("critical", "critical"),
        ]  # fmt: skip
        redis.hincrby("hub:zombies:orders", "told_at", -3_601_000)
        assert await self.passes(hub, posted, 120) == [("critical", "critical")]  # within the window up from 2
        assert await self.passes(hub, posted, 120, 3, 3) == [("critical", "ok")]

    async def test_the_numbers_found_are_kept_when_a_pass_could_not_count(self, hub, posted, redis):
        await self.passes(hub, posted, 12)
        kept = redis.hgetall("hub:zombies:orders")
        redis.expire("hub:zombies:orders", 60)
        broken = MadeUp(3)
        broken.trouble = {"count": RecordsUnavailable("Away.")}
        await service(hub, broken, posted).sweep()
        assert redis.hgetall("hub:zombies:orders") == kept
        assert redis.ttl("hub:zombies:orders") > 600_000
        assert len(posted.alerts) == 1
        assert await self.passes(hub, posted, 0) == [("warning", "ok")]

    async def test_the_result_of_a_pass_that_is_written_to_redis_twice_counts_once(self, hub, posted):
        call = hub.store.call

        async def again(*arguments: Any) -> Any:
            await call(*arguments)
            return await call(*arguments)

        hub.store.call = again
        assert await self.passes(hub, posted, 1, 12, 12, 0) == [("ok", "warning"), ("warning", "ok")]

    async def test_a_key_used_by_another_program_is_logged_as_an_error_of_the_pass(self, hub, posted, redis, lines):
        redis.set("hub:zombies:orders", "mine")
        records = MadeUp(4)
        await loop_of(hub, service(hub, records, posted)).once()
        assert lines("record sweep")[0]["reset"] == 4
        assert "hub doctor" in lines("source sweep failed")[0]["why"]

    async def test_the_thresholds_and_the_window_are_settings(self, hub, posted):
        settings = {"zombie_warning_above": 0, "zombie_critical_above": 1}
        assert await self.passes(hub, posted, 1, 2, **settings) == [("ok", "warning"), ("warning", "critical")]

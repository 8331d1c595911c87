"""Turns: a hub that wakes up late skips the one it has missed, and the next is as usual."""

from __future__ import annotations

import asyncio
import re
import signal
from types import SimpleNamespace

import httpx
import pytest

from hub.errors import StoreUnavailable
from hub.observability import metrics
from hub.sweeping import loop
from tests.world import PATIENCE_S, age_node, wait_until


class Pass:
    """A pass in which nothing happens."""

    eventful = False
    scanned = errors = 0

    def facts(self):
        return {"scanned": 0, "expired": 0, "errors": 0}


def skipped(service):
    return metrics.registry.get_sample_value("hub_sweeps_skipped_total", {"service": service}) or 0


@pytest.fixture
def turns(monkeypatch):
    """Run the loop of an interval of 10 s through pauses that take so long; returns when it swept."""

    async def run(*pauses_s, leads=None, anew=None):
        left, now, swept = list(pauses_s), [1000.0], []

        async def sleep(wished_s):
            assert 9 < wished_s < 11
            if not left:
                raise asyncio.CancelledError
            now[0] += left.pop(0)

        async def sweep():
            swept.append(now[0] - 1000)
            return Pass()

        monkeypatch.setattr(loop, "asyncio", SimpleNamespace(**{**vars(asyncio), "sleep": sleep}))
        monkeypatch.setattr(loop, "time", SimpleNamespace(clock_gettime=lambda _: now[0], monotonic=lambda: now[0]))
        clock = SimpleNamespace(leads=leads or SimpleNamespace(wait=_at_once), anew=anew or _at_once, away_since=None)
        with pytest.raises(asyncio.CancelledError):
            await loop.SweepLoop("test", 10, clock, sweep).run()
        return swept

    return run


async def _at_once():
    return None


@pytest.mark.parametrize(
    ("pauses_s", "swept_at"),
    [
        ((10, 10, 10), [0, 10, 20, 30]),
        ((10, 19.9, 10), [0, 10, 29.9, 39.9]),
        ((10, 20.1, 10), [0, 10, 40.1]),
        ((3600, 10, 10), [0, 3610, 3620]),
        ((25, 25, 10, 10), [0, 60, 70]),
    ],
)
async def test_a_sweep_that_is_more_than_two_intervals_late_is_skipped(turns, caplog, pauses_s, swept_at):
    before = skipped("test")
    assert await turns(*pauses_s) == pytest.approx(swept_at)
    late = sum(pause > 20 for pause in pauses_s)
    told = [record.msg for record in caplog.records if record.msg["event"] == "sweep skipped"]
    assert [(each["service"], each["interval_s"]) for each in told] == [("test", 10)] * late
    assert skipped("test") - before == late


async def test_after_a_skipped_sweep_the_next_one_waits_for_a_tick_of_the_hub_clock(turns):
    ticked = []

    async def anew():
        ticked.append(loop.time.monotonic() - 1000)

    assert await turns(10, 40, 10, anew=anew) == pytest.approx([0, 10, 60])
    assert ticked == pytest.approx([50])


async def test_a_hub_that_waited_to_become_the_leader_skips_no_sweep(turns):
    waited = []

    async def wait():
        waited.append(None)
        if len(waited) == 2:
            loop.time.clock_gettime = lambda _: 5000.0  # another hub was the leader all the time

    assert len(await turns(10, 10, leads=SimpleNamespace(wait=wait))) == 3


def lines(hub, event):
    return [line for line in hub.log().splitlines() if f" {event}" in line]


def offer(hub, node):
    answer = httpx.post(
        f"{hub.url}/node/register", json={"nodeId": node}, headers={"x-hub-secret": hub.node_secret}, timeout=PATIENCE_S
    )
    assert answer.status_code == 200, answer.text
    hub.redis.delete(f"node_alive:{node}")  # which a registration writes for 90 s


async def test_only_a_tick_that_began_after_the_question_counts_as_a_new_reading_of_the_clock(hub):
    waiting = asyncio.ensure_future(hub.clock.anew())
    await asyncio.sleep(0)
    await hub.clock.tick()
    await asyncio.wait_for(waiting, PATIENCE_S)
    under_way = asyncio.ensure_future(hub.clock.tick())
    await asyncio.sleep(0)
    waiting = asyncio.ensure_future(hub.clock.anew())
    await under_way
    await asyncio.sleep(0)
    assert not waiting.done()
    await hub.clock.tick()
    await asyncio.wait_for(waiting, PATIENCE_S)


def test_a_hub_that_was_stopped_skips_one_sweep_of_each_kind_and_goes_on(start_hub, redis):
    # So long that a process which stands still of itself skips nothing; tasks are looked after every second.
    hub = start_hub(HUB_NODE_TIMEOUT="2", HUB_NODE_SWEEP_INTERVAL_SECONDS="3", HUB_BORROW_TTL_SWEEP_SECONDS="3")
    wait_until(lambda: all(lines(hub, f"{service} sweep") for service in ("node", "lease", "task")), why=hub.log)
    hub.signal(signal.SIGSTOP)
    ticked = redis.hget("hub:store", "tick_ms")
    wait_until(lambda: redis.time()[0] * 1000 - int(ticked) > 8000)
    hub.signal(signal.SIGCONT)

    def skipped():
        return [line.split("service=")[1].split()[0] for line in lines(hub, "sweep skipped")]

    wait_until(lambda: set(skipped()) == {"node", "lease", "task"}, why=hub.log)
    offer(hub, "mute")
    wait_until(lambda: lines(hub, "node expired"), why=hub.log)
    assert (skipped().count("node"), skipped().count("lease")) == (1, 1)
    assert 'hub_sweeps_skipped_total{service="node"} 1.0' in httpx.get(f"{hub.url}/metrics", timeout=PATIENCE_S).text


def test_a_hub_that_was_stopped_expires_no_node_by_an_outdated_switch(start_hub, redis):
    stopped = start_hub(HUB_NODE_TIMEOUT="60")
    wait_until(lambda: lines(stopped, "node sweep"), why=stopped.log)
    leader = redis.hget("hub:store", "leader")
    other = start_hub(HUB_NODE_TIMEOUT="60", HUB_NODE_SWEEP_INTERVAL_SECONDS="3600")
    offer(other, "mute")
    if redis.hget("hub:store", "leader") != leader:  # the first stood still while the second started: it shall lead
        other.signal(signal.SIGSTOP)
        wait_until(lambda: redis.hget("hub:store", "leader") == leader, why=stopped.log)
        other.signal(signal.SIGCONT)
    stopped.signal(signal.SIGSTOP)
    wait_until(lambda: redis.hget("hub:store", "leader") != leader and lines(other, "node sweep"), why=other.log)
    switched = httpx.put(
        f"{other.url}/admin/sweeper",
        json={"expire": False},
        headers={"x-hub-secret": other.admin_secret},
        timeout=PATIENCE_S,
    )
    assert switched.status_code == 200
    age_node(redis, "mute", 300)
    stopped.signal(signal.SIGCONT)
    # It may have been stopped in the middle of a pass, which skips nothing.
    wait_until(lambda: lines(stopped, "expiry switched"), why=stopped.log)
    other.kill()
    wait_until(lambda: lines(stopped, "node refreshed"), why=stopped.log)
    assert redis.smembers("nodes") == {"mute"}
    assert lines(stopped, "node expired") == []


class Busy(Pass):
    eventful = True


class Changed(Pass):
    """A pass with a number that is not 0, beside what it looked at."""

    def facts(self):
        return {**super().facts(), "scanned": 5, "elapsed_ms": 1.5, "adopted": 1, "brake": "off", "held": 0}


CHANGES = {"only_changes": True}


def loop_of(left, monkeypatch, **options):
    """Return a loop of which each pass takes ten seconds and has the next of these results."""
    now = [1000.0]
    monkeypatch.setattr(loop, "time", SimpleNamespace(clock_gettime=lambda _: now[0], monotonic=lambda: now[0]))

    async def sweep():
        now[0] += 10
        made = left.pop(0)()
        if isinstance(made, Exception):
            raise made
        return made

    return loop.SweepLoop("test", 10, SimpleNamespace(), sweep, **options)


@pytest.mark.parametrize(
    ("options", "passes", "lines"),
    [
        ({}, [Pass, Pass, Busy], [{}, {}, {}]),
        ({}, [Pass, RuntimeError, Pass], [{}, {"errors": 1}, {}]),
        ({"line_s": 20}, [Pass, Pass, Busy, Pass, Pass], [{"passes": 1}, {"passes": 2}, {"passes": 2}]),
        (CHANGES, [Pass] * 61, [{"passes": 1}, {"passes": 60}]),
        (CHANGES, [Pass, Pass, Changed, Pass, Pass], [{"passes": 1}, {"passes": 2, "adopted": 1}]),
        (CHANGES, [Pass, RuntimeError, Pass], [{"passes": 1}, {"errors": 1}]),
        ({**CHANGES, "line_s": 20}, [Pass] * 61, [{"passes": 1}, {"passes": 60}]),
    ],
)
async def test_each_pass_or_each_change_is_logged_once(monkeypatch, options, passes, lines):
    left = list(passes)
    told = []
    monkeypatch.setattr(
        loop, "_log", SimpleNamespace(info=lambda event, **facts: told.append((event, facts)), error=lambda *_, **__: 0)
    )
    sweeps = loop_of(left, monkeypatch, **options)
    while left:
        assert await sweeps.once()
    assert [event for event, _ in told] == ["test sweep"] * len(lines)
    assert [{name: facts[name] for name in wanted} for (_, facts), wanted in zip(told, lines, strict=True)] == lines
    assert all({"scanned", "expired", "errors"} <= facts.keys() for _, facts in told)


async def test_a_sweep_line_leaves_out_zeros_except_in_its_first_four_fields(caplog):
    async def sweep():
        return Changed()

    with caplog.at_level("INFO"):
        assert await loop.SweepLoop("test", 10, SimpleNamespace(), sweep).once()
    (line,) = [record.msg for record in caplog.records if record.msg["event"] == "test sweep"]
    shown = {name: line[name] for name in line if name in Changed().facts()}
    assert shown == {"scanned": 5, "expired": 0, "errors": 0, "elapsed_ms": 1.5, "adopted": 1, "brake": "off"}


@pytest.mark.parametrize("options", [{}, CHANGES], ids=["every", "changes"])
async def test_each_pass_that_redis_refuses_is_logged(monkeypatch, caplog, options):
    left = [Pass] * 30 + [StoreUnavailable] * 3
    with caplog.at_level("INFO"):
        sweeps = loop_of(left, monkeypatch, **options)
        while left:
            await sweeps.once()
    told = [record.msg for record in caplog.records if record.msg["event"] == "test sweep"]
    assert [line["errors"] for line in told if line.get("store") == "away"] == [1, 1, 1]
    assert len(told) == 3 + (1 if options else 30)


SERVICES = ("node", "lease", "worker", "task", "record")


def passes(log, service):
    """Return the facts of every summary line of a service."""
    return [dict(re.findall(r"(\w+)=(\S+)", line)) for line in log.splitlines() if f" {service} sweep " in line]


def test_every_sweeper_logs_one_line_per_interval_even_while_redis_is_away(start_hub, own_redis, tmp_path):
    source = tmp_path / "sources.toml"
    source.write_text('[[sources]]\nname = "orders"\nkind = "tasks"\n')
    hub = start_hub(
        HUB_REDIS_URL=own_redis.url, REDIS_BREAKER_COOLDOWN_MS="500", HUB_SWEEPER_INTERVAL_SECONDS="0.5",
        ZOMBIE_CLEANUP_INTERVAL_MINUTES="0.01", HUB_RECOVERY_FILE=str(source),
    )  # fmt: skip
    for service in SERVICES:
        wait_until(lambda name=service: passes(hub.log(), name), why=hub.log)
        quiet = passes(hub.log(), service)[0]
        seen = {"source", "errors", "elapsed_ms"} if service == "record" else {"scanned", "expired"}
        assert quiet["errors"] == "0"
        assert seen <= quiet.keys()
        shown = quiet.keys() & {"scanned", "expired", "found", "reset"}
        assert shown == seen & {"scanned", "expired"}
        assert {quiet[name] for name in shown} <= {"0"}
        assert 0 <= float(quiet["elapsed_ms"]) < 1000 * PATIENCE_S
    own_redis.kill()

    def away(service):
        return [line for line in passes(hub.log(), service) if line.get("store") == "away"]

    for service in SERVICES:
        wait_until(lambda name=service: len(away(name)) >= (1 if name == "task" else 3), 2 * PATIENCE_S, why=hub.log)
        for line in away(service):
            assert (line["scanned"], line["expired"], line["errors"]) == ("0", "0", "1")
            assert "elapsed_ms" in line
            assert (service != "record") or line["source"] == "orders"
    assert "sweep failed" not in hub.log()
    own_redis.start()
    for service in set(SERVICES) - {"task"}:
        told = len(passes(hub.log(), service))
        wait_until(
            lambda name=service, since=told: any(line["errors"] == "0" for line in passes(hub.log(), name)[since:]),
            why=hub.log,
        )
    hub.kill()

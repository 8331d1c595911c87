"""A pass that takes long makes no dead node be found late: the audit goes on beside it, turns come as they are due."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from hub.core import Hub
from hub.errors import StoreUnavailable
from hub.store.connection import open_store
from hub.sweeping import loop
from tests.world import age_node, push, settings_for, sweepers

LABEL = "Pay:Chromium:Prod"


@pytest.fixture
async def hasty(redis_server):
    """A hub that sweeps ten times a second."""
    settings = settings_for(redis_server.url, node_sweep_interval_s=0.1, node_sweep_interval_min_s=0.05)
    async with open_store(settings) as store:
        yield Hub(store, settings)


@pytest.fixture
def slow(hasty, monkeypatch):
    """The audit takes until this event is set."""
    walked, adopt = asyncio.Event(), hasty.pools.adopt

    async def wait(*of):
        await walked.wait()
        return await adopt(*of)

    monkeypatch.setattr(hasty.pools, "adopt", wait)
    return walked


async def test_a_dead_node_is_found_while_the_audit_walks_a_long_list(hasty, slow, redis):
    push(redis, LABEL, ("s1", "n1"))
    redis.sadd("nodes", "dead")
    age_node(redis, "dead", 300)
    nodes, _ = sweepers(hasty)
    done = await asyncio.wait_for(nodes.sweep(), 30)
    assert (done.expired, done.adopted, done.errors) == (1, 0, 0)
    assert redis.hget("hub:slot:s1", "place") is None
    slow.set()
    found = 0
    while not found:  # the same stretch has gone on, and is told of once
        found = (await nodes.sweep()).adopted
    assert (found, redis.hget("hub:slot:s1", "place")) == (1, "free")


async def test_two_callers_that_want_an_audit_share_one(hasty, slow, redis):
    push(redis, LABEL, ("s1", "n1"))
    nodes, leases = sweepers(hasty)
    both = asyncio.gather(leases.sweep(), leases.sweep())
    await nodes.sweep()
    slow.set()
    assert sorted(done.adopted for done in await asyncio.wait_for(both, 30)) == [0, 1]


async def test_an_audit_that_failed_after_its_caller_left_fails_the_next_pass(hasty, slow, redis, monkeypatch):
    push(redis, LABEL, ("s1", "n1"))
    nodes, _ = sweepers(hasty)
    await nodes.sweep()

    def broken(_):
        raise ZeroDivisionError

    async def sweep_on():
        while True:
            await nodes.sweep()

    monkeypatch.setattr(hasty.pools, "describe", broken)
    slow.set()
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(sweep_on(), 30)
    monkeypatch.undo()
    assert (await nodes.sweep()).errors == 0


async def test_an_audit_interrupted_by_an_outage_does_not_fail_later_passes(hasty, slow, redis, monkeypatch):
    push(redis, LABEL, ("s1", "n1"))
    nodes, _ = sweepers(hasty)
    await nodes.sweep()
    (audit,) = (task for task in asyncio.all_tasks() if task.get_name() == "audit")
    hasty.store.set_away()
    slow.set()
    await asyncio.wait([audit], timeout=30)
    assert isinstance(audit.exception(), StoreUnavailable)
    hasty.store.away = False
    found = 0
    while not found:
        found = (await nodes.sweep()).adopted
    assert found == 1


@pytest.mark.parametrize(
    ("took_s", "swept_at"),
    [
        ((0, 0, 0), [0, 10, 20]),
        ((3, 0, 4), [0, 10, 20]),
        ((5, 1, 0), [0, 10, 20]),
        ((8, 25, 0), [0, 13, 43]),
    ],
)
async def test_a_long_pass_does_not_delay_the_next_one(monkeypatch, took_s, swept_at):
    left, now, swept = list(took_s), [1000.0], []

    async def sleep(wished_s):
        now[0] += wished_s
        if not left:
            raise asyncio.CancelledError

    async def sweep():
        swept.append(now[0] - 1000)
        now[0] += left.pop(0)
        return SimpleNamespace(eventful=False, scanned=0, errors=0, facts=dict)

    async def leads():
        return True

    monkeypatch.setattr(loop, "asyncio", SimpleNamespace(**{**vars(asyncio), "sleep": sleep}))
    monkeypatch.setattr(loop, "time", SimpleNamespace(clock_gettime=lambda _: now[0], monotonic=lambda: now[0]))
    monkeypatch.setattr(loop, "random", SimpleNamespace(uniform=lambda *_: 1.0))
    with pytest.raises(asyncio.CancelledError):
        await loop.SweepLoop("test", 10, SimpleNamespace(leads=SimpleNamespace(wait=leads)), sweep).run()
    assert swept == pytest.approx(swept_at)

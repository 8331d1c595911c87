"""Calls that wait while the primary changes: a queued borrow, a claim, a listening holder, a reader of events.

No timeout helps here: calls to Redis have none, and no subscription checks its connection. So a call that waits at a
stopped or demoted server is served only because the hub dropped that connection.
"""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import asynccontextmanager

import httpx
import pytest

from hub.api.app import create_app
from hub.store.cancelling import cancel_all
from hub.store.clock import PERIOD_S
from hub.store.monitor import ConnectionMonitor
from tests.api.streams import listening
from tests.replicas import Trio
from tests.world import PATIENCE_S, borrow, eventually, give_back, publish, settings_for

pytestmark = pytest.mark.race
LABEL, OTHER, JOB = "gpu:a100", "gpu:h100", "lab:modifiers:Rotate"
JOBS = "/v1/joblib"
BACK_S = 2.0


@pytest.fixture
def trio(tmp_path):
    servers = Trio(tmp_path)
    yield servers
    servers.stop()


@asynccontextmanager
async def serving(url):
    """(application, client, hub) whose clock ticks by itself."""
    app = create_app(settings_for(url, redis_timeout_s=0, borrow_queue_timeout_s=600), sweep=False)
    transport = httpx.ASGITransport(app=app)
    async with (
        app.app.router.lifespan_context(app.app),
        httpx.AsyncClient(transport=transport, base_url="http://hub", timeout=None) as api,
    ):
        hub = app.app.state.serving.hub
        ticking = asyncio.create_task(hub.clock.run())
        try:
            yield app, api, hub
        finally:
            await cancel_all([ticking])


def planned(trio):
    """Fail over as an operator does."""
    trio.fail_over()


def stopped(trio):
    """Stop the primary without closing its connections, and wait for another one."""
    before = trio.primary
    with before.client() as client:
        client.set("a mark", "1")
        assert client.wait(2, 60_000) == 2  # what was written is at both replicas
    before.signal(signal.SIGSTOP)
    trio.wait_for_another(before)


async def waiting(trio, *channels):
    """Wait until each channel has a subscriber at the primary."""

    async def all_there():
        with trio.primary.client() as client:
            return all(count for _, count in client.pubsub_numsub(*channels))

    await eventually(all_there)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("change", [planned, stopped])
async def test_every_waiter_is_served_by_the_new_primary_after_a_failover(trio, monkeypatch, change):
    async def never(self):
        return None

    monkeypatch.setattr(ConnectionMonitor, "check", never)
    async with serving(trio.url) as (app, api, hub), listening(app) as stream:
        await publish(api, "n1", **{LABEL: ["s1"], OTHER: ["t1"]})
        held, watched = [(await borrow(api, label)).json() for label in (LABEL, OTHER)]
        worker = (
            await api.put(f"{JOBS}/rooms/lab/jobs", json={"category": "modifiers", "name": "Rotate", "schema": {}})
        ).json()
        lease = {"browserId": "t1", "leaseToken": watched["leaseToken"]}
        queued = asyncio.create_task(borrow(api, LABEL, run="r2", maxWaitSeconds=600))
        wanted = {"worker_id": worker["worker_id"]}
        claim = asyncio.create_task(insist(api, f"{JOBS}/tasks/claim", wanted, "task"))
        watch = asyncio.create_task(insist(api, "/leases/watch", {"leases": [lease]}, "over"))
        await waiting(trio, hub.store.keys.granted(hub.queue.hub_id), hub.store.keys.revoked_notice("t1"))

        async def in_the_queue():
            return (await api.get("/queue")).json()["waiting"] == 1

        await eventually(in_the_queue)
        before = hub.store.generation
        await asyncio.to_thread(change, trio)
        await eventually(lambda: hub.store.generation != before and not hub.store.away)
        await publish(api, "n1", **{LABEL: ["s1"], OTHER: ["t1"]})  # it says what it has, and is lent from again
        async with asyncio.timeout(PATIENCE_S):
            await done(lambda: give_back(api, LABEL, "s1", leaseToken=held["leaseToken"]))
            assert (await queued).json()["browserId"] == "s1"
            await done(lambda: give_back(api, OTHER, "t1", revoke=True))
            assert [each["browserId"] for each in await watch] == ["t1"]
            task = await done(lambda: api.post(f"{JOBS}/rooms/lab/tasks/{JOB}", json={"payload": {}}))
            assert (await claim)["id"] == task.json()["id"]
        await eventually(lambda: {"grant.returned", "grant.handed"} <= set(stream.names))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("change", [planned, stopped])
async def test_lending_resumes_within_two_seconds_of_the_failover_decision_of_the_sentinels(trio, monkeypatch, change):
    """Counted in ticks, of which two seconds have four: a machine that stands still for a while ticks less as well. No
    tick can take longer than another, for one that waited on the server before would wait for ever.
    """
    async with serving(trio.url) as (_, api, hub):
        tick, ticks = hub.clock.tick, []

        async def counted():
            ticks.append(time.monotonic())
            await tick()

        monkeypatch.setattr(hub.clock, "tick", counted)
        await publish(api, "n1", **{LABEL: ["s1"]})
        before = hub.store.generation
        await asyncio.to_thread(change, trio)
        agreed_at, begun = time.monotonic(), len(ticks)

        async def lent():
            node = {"nodeId": "n1", "slots": [{"labelKey": LABEL, "slotId": "s1"}]}
            reported = await api.post("/node/register", json=node)
            return reported.is_success and (await borrow(api, LABEL, maxWaitSeconds=0)).is_success

        await eventually(lent)
        took = len(ticks) - begun
        print(f"lent {time.monotonic() - agreed_at:.2f} s after the Sentinels agreed, {took} ticks")
        assert hub.store.generation != before
        assert took <= BACK_S / PERIOD_S


async def insist(api, path, body, what):
    """Repeat a waiting call until its answer holds `what`; only 503 problems may come in between."""
    while True:
        answer = await api.post(path, json={**body, "waitSeconds": 30})
        if answer.status_code == 200 and answer.json().get(what):
            return answer.json()[what]
        if answer.status_code != 200:
            assert (answer.status_code, answer.headers["content-type"]) == (503, "application/problem+json")


async def done(call):
    """The answer of a call that is carried out: what is refused while the store is put together again is asked anew."""

    async def carried_out():
        answers.append(await call())
        return answers[-1].is_success

    answers = []
    await eventually(carried_out)
    return answers[-1]

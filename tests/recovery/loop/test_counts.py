"""The counts of a loop are seen while it runs: in the counts it was given, as events, and by Prometheus."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client import REGISTRY
from sqlalchemy.ext.asyncio import async_sessionmaker

from hub.recovery.engines import make_engine
from hub.recovery.loop import Counts, process
from tests.recovery.loop.world import handled, nothing, source_of
from tests.world import eventually


def shown(name, outcome, source):
    """Return what an application that runs a loop shows at its own /metrics."""
    return REGISTRY.get_sample_value(f"record_loop_{name}_total", {"source": source, "outcome": outcome}) or 0


async def test_the_counts_can_be_read_while_the_loop_runs_and_stay_in_prometheus(jobs, request):
    name = f"seen-{jobs.kind}"
    jobs.add(1, 2, 3, status="Pending")
    stop, go, counts, heard = asyncio.Event(), asyncio.Event(), Counts(), []
    begun = asyncio.Event()
    counts.on_change = lambda what, id: heard.append((what, id))

    async def handler(record, session):
        if record.id == 2:
            raise ValueError("oh")
        if record.id == 3:
            begun.set()
            await go.wait()

    options = {"done": "Done", "stop": stop, "counts": counts, "poll_s": 0.05, "batch": 1, "park": False}
    running = asyncio.create_task(process(source_of(jobs, name=name), handler, **options))
    await eventually(lambda: (counts.claimed, counts.done, counts.failed) == (3, 1, 1))
    assert [shown("records", each, name) for each in ("claimed", "done", "failed", "lost")] == [3, 1, 1, 0]
    await begun.wait()
    go.set()
    stop.set()
    assert await running is counts
    assert [shown("records", each, name) for each in ("claimed", "done", "failed", "lost")] == [3, 2, 1, 0]
    assert [each for each in heard if each[0] in ("claimed", "done", "failed")] == [
        ("claimed", 1), ("done", 1), ("claimed", 2), ("failed", 2), ("claimed", 3), ("done", 3),
    ]  # fmt: skip


async def test_refused_sessions_are_shown_as_a_share_of_those_asked_for(jobs):
    name = f"share-{jobs.kind}"
    jobs.add(*range(20), status="Pending")
    engine, asked = make_engine(source_of(jobs)), []
    make = async_sessionmaker(engine)

    def get_session():
        asked.append(1)
        return None if len(asked) == 10 else make()

    counts = await handled(source_of(jobs, name=name), nothing, get_session=get_session)
    await engine.dispose()
    assert (counts.refusals, shown("sessions", "refused", name)) == (1, 1)
    assert shown("sessions", "given", name) == counts.sessions - 1 >= 20


async def test_an_on_change_callback_that_raises_fails_no_record(jobs, caplog):
    jobs.add(1, 2, status="Pending")

    def fails(what, id):
        raise ValueError("not now")

    counts = await handled(source_of(jobs), nothing, counts=Counts(on_change=fails))
    assert (counts.done, jobs.statuses()) == (2, {"Done": 2})
    assert "on_change failed" in caplog.text


@pytest.mark.parametrize("restart", [True, False])
async def test_the_number_of_resets_is_0_after_success_unless_the_source_keeps_it(jobs, restart):
    jobs.add(1, 2, 3, status="Pending", attempts=2)
    counted = {"attempts_field": "attempts", "max_attempts": 3, "restart_attempts": restart}

    async def handler(record, session):
        if record.id == 2:
            raise ValueError("oh")
        return {"attempts": 7} if record.id == 3 else None

    await handled(source_of(jobs, **counted), handler)
    assert [job.attempts for job in jobs.jobs().values()] == [0 if restart else 2, 2, 7]

"""Outages that begin at operations of the loop, with Redis to park in and without; see `test_every_await`."""

from __future__ import annotations

import pytest

from hub.recovery.loop import intake, items, processing, sessions
from tests.recovery.loop.faults import CUT, HANGS
from tests.recovery.loop.trial import Trial

pytestmark = [pytest.mark.race, pytest.mark.slow]

AFTER_REFLECTION = 12  # operations; what is done there is repeated as a whole


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that hangs is waited for long."""
    for module, name in (
        (items, "WRITE_S"), (sessions, "SESSION_S"), (sessions, "CLOSE_S"), (processing, "CLAIM_S"),
        (intake, "CLAIM_S"),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, 0.5)


async def test_a_database_that_hangs_at_any_call_loses_no_record(pg_jobs, tmp_path, short_waits):
    await Trial(pg_jobs, tmp_path).everywhere([HANGS], first=AFTER_REFLECTION, every=4)


async def test_during_an_outage_of_the_database_known_outcomes_are_parked_and_the_loop_waits(
    pg_jobs, redis_server, tmp_path
):
    trial = Trial(pg_jobs, tmp_path, park=redis_server.url)
    await trial.everywhere([CUT], length=12, first=AFTER_REFLECTION, every=4)
    assert redis_server.client().keys("*") == []


async def test_without_a_redis_for_parked_outcomes_the_loop_waits_for_the_end_of_an_outage(pg_jobs, tmp_path):
    await Trial(pg_jobs, tmp_path).everywhere([CUT], length=12, first=AFTER_REFLECTION + 1, every=4)

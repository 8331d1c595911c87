"""Faults at every operation of the loop, one at a time: after each every record is handled in the end, once at a
time, and what its handler wrote is there if it is done and only then."""

from __future__ import annotations

import pytest

from tests.recovery.loop.conftest import make_tables
from tests.recovery.loop.faults import ANSWER_LOST, CUT, REFUSED
from tests.recovery.loop.trial import Trial

pytestmark = [pytest.mark.race, pytest.mark.slow]


async def test_a_fault_at_any_database_call_loses_no_record(pg_jobs, tmp_path):
    trial = Trial(pg_jobs, tmp_path)
    assert {"connect", "execute", "commit", "rollback"} == await trial.everywhere([REFUSED, CUT, ANSWER_LOST])


async def test_a_fault_at_any_database_call_on_sqlite_loses_no_record(sqlite, tmp_path):
    make_tables(sqlite)
    assert {"connect", "execute", "commit"} == await Trial(sqlite, tmp_path).everywhere([REFUSED, ANSWER_LOST])

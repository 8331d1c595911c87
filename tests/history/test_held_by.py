"""The words in which an explanation names the holder of a lease."""

from __future__ import annotations

import pytest

from hub.capacity.models import LeaseHolder, LeaseRecord
from hub.history.holders import held_by

HOST = "10.0.0.7"


@pytest.mark.parametrize(
    ("holder", "run", "words"),
    [
        (None, "r1", "Run r1"),
        (None, "", "Run (none)"),
        (LeaseHolder(None, None, HOST, HOST), "r1", "Run r1"),
        (LeaseHolder(None, None, "unknown", ""), "r1", "Run r1"),
        (LeaseHolder(None, None, "nightly", HOST, run_name="nightly"), "r1", "Run nightly (r1)"),
        (LeaseHolder(None, None, HOST, HOST), "", f"{HOST}, run (none),"),
        (LeaseHolder(None, None, "ci-4", HOST), "r1", "ci-4, run r1,"),
        (LeaseHolder(None, None, "ci-4", HOST, run_name="nightly"), "r1", "ci-4, run nightly (r1),"),
        (LeaseHolder("ada", "ml", HOST, HOST, "7"), "r1", f"ada ({HOST}), run r1,"),
    ],
)
def test_a_holder_is_named_by_its_run_alone_where_only_its_address_is_known(holder, run, words):
    lease = LeaseRecord("s1", "gpu:a", "gpu:a", run, "n1", "2026-01-02T03:04:05Z", 60.0, 60_000, holder)
    assert held_by(lease) == words

"""Which counts break a promise, and how a broken promise is shown."""

from __future__ import annotations

import math

import pytest

from tests.drill.report import Found, Outcome, table


@pytest.mark.parametrize(
    ("facts", "broken"),
    [
        ({}, []),
        ({"expired": 1}, ["1 healthy nodes expired"]),
        ({"lost": 2}, ["2 leases lost"]),
        ({"twice": 1200}, ["1,200 slots lent twice"]),
        ({"idle": 1}, ["1 wanted slots idle"]),
        ({"expired": 5, "lost": 6}, ["5 healthy nodes expired", "6 leases lost"]),
        ({"found": (Found(8.0, 0, 7.0),)}, []),
        ({"found": (Found(8.1, 0, 7.0),)}, ["dead nodes found late, 8.1 s of 7.0 s"]),
        ({"found": (Found(10.0, 2.0, 7.0),)}, []),
        ({"found": (Found(10.2, 2.0, 7.0),)},
         ["dead nodes found late, 10.2 s of 7.0 s (the hub clock stood still for 2.0 s)"]),
        ({"found": (Found(math.inf, 0, 10, "writing"),)}, ["dead nodes found late, writing: inf s of 10.0 s"]),
        ({"faults": ("not within 60 s: all are back",)}, ["not within 60 s: all are back"]),
    ],
)  # fmt: skip
def test_each_kind_of_loss_in_an_outage_is_reported_as_a_broken_promise(facts, broken):
    assert Outcome("Nothing", 0, **facts).broken == broken


def test_the_table_has_a_row_for_each_outage():
    kept = Outcome("Hubs killed", 60.4, heard_s=1.26, found=(Found(6.94, 0.2, 7), Found(9, 0, 10, "writing")))
    broken = Outcome("A third silent", 9, expired=1333, lost=20, twice=1)
    rows = table([kept, broken]).splitlines()[2:]
    assert rows == [
        "| Hubs killed | 60 s | 0 | 0 | 0 | 0 | 1.3 s | 6.9 s of 7.0 s; writing: 9.0 s of 10.0 s | yes |",
        "| A third silent | 9 s | 1,333 | 20 | 1 | 0 | 0.0 s |  | **no** |",
    ]

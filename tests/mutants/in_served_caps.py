"""Mistakes in caps on what is served."""

from __future__ import annotations

from tests.mutants.mistakes import Mistake

SERVED = (
    Mistake(
        "leases.lua", "  served_caps.count(slot, lease.pool)\n", "",
        "a lease is not counted for the cap on what its pool serves",
    ),
    Mistake(
        "endings.lua", "  served_caps.uncount(slot)\n", "",
        "a lease that has ended counts on for the cap on what its pool serves",
    ),
    Mistake(
        "supply.lua", " or served_caps.reached(pool) or teams", " or teams",
        "a pool lends beyond the cap on what it serves",
    ),
    Mistake(
        "placing.lua", " and not served_caps.reached(pool) then", " then",
        "a freed slot is handed on although the cap on what its pool serves is reached",
    ),
    Mistake(
        "placing.lua", " and not served_caps.has_made_room(pool)", "",
        "waiters for the pool of a freed slot are served before those whose turn it is under one cap",
        "test_room_under_a_cap_goes_to_the_first_waiter_below_it_from_any_pool",
        "tests/capacity/queue/test_regressions.py",
    ),
    Mistake(
        "serving.lua", "  for _, label in ipairs(call_state.roomy) do serving_below.serve(label) end\n", "",
        "a waiter stays beside a free slot that only a cap on what is served had kept free",
        "test_room_under_a_cap_goes_to_the_first_waiter_below_it_from_any_pool",
        "tests/capacity/queue/test_regressions.py",
    ),
    Mistake(
        "fast_borrow.lua", "not wild and not served_caps.reached(label) and", "not wild and",
        "a borrow that finds no queue is lent a slot beyond the cap on what its pool serves",
        "test_a_lease_of_another_program_counts_whichever_of_its_traces_is_found_first",
        "tests/capacity/queue/test_served_caps.py",
    ),
    Mistake(
        "commands/queue/set_cap.lua", "if a.cap ~= '' then served_caps.count_anew(a.label) else", "if a.cap == '' then",
        "a cap on what is served does not count the leases that were live when it was set",
        "test_a_cap_counts_the_leases_that_are_live_as_it_is_set",
        "tests/capacity/queue/test_served_caps.py",
    ),
)  # fmt: skip

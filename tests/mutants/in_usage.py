"""Mistakes in the figures of usage."""

from __future__ import annotations

from tests.mutants.mistakes import Mistake

_ENDS, _DAYS, _LOST = (f"tests/usage/test_{name}.py" for name in ("ends", "days", "lost"))
_EVERY_END = "test_every_end_of_a_lease_counts_it_once_for_each_name"
USAGE = (
    Mistake(
        "releases.lua", "  if what ~= 'grant.undone' then usage.note_end(record) end\n", "  usage.note_end(record)\n",
        "a lease that no caller received counts", "test_a_lease_that_no_caller_received_counts_nothing", _ENDS,
    ),
    Mistake(
        "releases.lua", "  if what ~= 'grant.undone' then usage.note_end(record) end\n", "",
        "a lease that lapses or is returned does not count", _EVERY_END, _ENDS,
    ),
    Mistake(
        "endings.lua", "  usage.note_end(record)\n", "",
        "a lease that ends with its node does not count", _EVERY_END, _ENDS,
    ),
    Mistake(
        "commands/usage/fold.lua", "lenient.call(nil, 'LPOP', keys.usage_ended, a.limit) or {}",
        "lenient.call({}, 'LRANGE', keys.usage_ended, 0, a.limit - 1)",
        "a lease counts again when a hub repeats its call", _EVERY_END, _ENDS,
    ),
    Mistake(
        "commands/usage/fold.lua", " and numbers.above(a.number, redis.call('GET', keys.usage_told(a.hub)) or '0')", "",
        "refusals count again when a hub repeats its call",
        "test_refusals_count_once_although_the_hub_does_not_hear_that_they_were_told", _DAYS,
    ),
    Mistake(
        "commands/usage/fold.lua", "  if store.settle_left_ms > 0 then return {'settling'} end\n", "",
        "what is counted after a loss is hidden by what hubs give back",
        "test_nothing_is_added_to_the_figures_while_hubs_give_them_back", _LOST,
    ),
    Mistake(
        "commands/usage/restore.lua", "math.max(tonumber(figure), tonumber(known() or '0'))",
        "tonumber(figure) + tonumber(known() or '0')",
        "figures that two hubs give back count twice",
        "test_figures_come_back_after_a_wipe_and_several_hubs_that_give_them_back_count_nothing_twice", _LOST,
    ),
    Mistake(
        "usage_days.lua", "math.min(over, (day + 1) * DAY_MS)", "over",
        "a lease over midnight is held twice",
        "test_a_lease_over_midnight_counts_on_the_day_it_began_and_is_held_on_both", _DAYS,
    ),
    Mistake(
        "usage_days.lua", " and new >= most then", " and false then",
        "a day has any number of names", "test_names_beyond_the_bound_of_a_day_are_counted_together", _DAYS,
    ),
    Mistake(
        "handoffs.lua", "usage.began(tonumber(t.since_ms or ''))", "usage.began()",
        "a wait does not count",
        "test_a_wait_counts_from_the_queue_to_the_grant_and_a_borrow_at_once_waits_for_nothing", _ENDS,
    ),
)  # fmt: skip

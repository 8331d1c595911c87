"""Mistakes in the rules of pools: which rule holds, when leases end by it, and who is told."""

from __future__ import annotations

from tests.mutants.mistakes import Mistake

_RULES = "tests/capacity/test_pool_rules.py"
RULES = (
    Mistake(
        "patterns.lua", "return #one.pattern > #other.pattern", "return #one.pattern < #other.pattern",
        "the shortest pattern wins", "test_the_longest_pattern_that_fits_the_pool_wins", _RULES,
    ),
    Mistake(
        "pool_rules.lua", "  if ttl_ms < 0 then ms = rule.ttl or ms end\n", "  ms = rule.ttl or ms\n",
        "the length of a rule replaces what a borrower asks for", "test_the_length_of_a_rule_replaces_a_default_and_no_wish", _RULES,
    ),
    Mistake(
        "lease_limits.lua", "if r.idle_ms > 0 and r.active_ms then",
        "r.active_ms = r.active_ms or r.granted_ms if r.idle_ms > 0 then",
        "a holder that never told of use is idle", "test_a_holder_that_never_told_of_use_counts_as_busy_and_why_says_so", _RULES,
    ),
    Mistake(
        "lease_limits.lua", "  at = at and math.max(at, r.spared_ms or 0)\n", "",
        "a stricter rule ends a live lease before its holder was told in time",
    ),
    Mistake(
        "lease_limits.lua", "r.recall_ms or latest, hold or latest)", "r.recall_ms or latest)",
        "a renewal goes beyond the longest hold", "test_the_longest_hold_ends_a_lease_that_is_renewed", _RULES,
    ),
    Mistake(
        "lease_use.lua", "  if r.warned_ms ~= at then\n", "  if true then\n",
        "a holder is told of one end again and again, and the lease never ends",
    ),
    Mistake(
        "lease_use.lua", "  local grace_ms = believes and revocations.grace_ms() or 0\n", "  local grace_ms = 0\n",
        "a slot is lent on while its last holder may believe in its lease", "test_a_change_counts_for_live_leases_after_one_warning", _RULES,
    ),
    Mistake(
        "lease_use.lua", "    r.paused_ms = math.min(store.clock_ms + pause_ms, latest)\n", "    r.paused_ms = store.clock_ms + pause_ms\n",
        "a pause outlasts the longest hold",
    ),
    Mistake(
        "endings.lua", "  if limited then lease_limits.forget(slot) end\n", "",
        "the limits of a lease outlive it",
    ),
    Mistake(
        "commands/capacity/lapse.lua", "    if lease[5] or pool_rules.of(lease[6] or '') then lease_use.refresh(slot) end\n", "",
        "a change of a rule counts for no live lease",
    ),
    Mistake(
        "commands/capacity/lapse.lua", "      if not lease[4] then lease_use.keep_footprint(slot, idle_ms) end", "      return 'idle'",
        "a holder that renews later than the idle time loses its lease",
        "test_the_idle_setting_ends_no_lease_whose_holder_tells_of_no_use", _RULES,
    ),
    Mistake(
        "commands/capacity/recall_rules.lua", "if a.number == '' or not numbers.above(a.number, store.rules) then", "if a.number == '' then",
        "a hub that knows earlier rules takes the later ones back", "test_hubs_give_the_rules_back_to_a_store_that_lost_them", _RULES,
    ),
    Mistake(
        "renewals.lua", "if idle_ms > 0 and not active_ms then", "if idle_ms > 0 then",
        "a renewal counts as use of a slot whose holder tells of it",
    ),
)  # fmt: skip

"""Mistakes in teams: who is next, ceilings, what is counted, and what is recalled for whom."""

from __future__ import annotations

from tests.mutants.mistakes import Mistake

_FOLDER = "tests/capacity/teams/"
_ORDER, _CEILINGS, _CHANGES, _RECALLS, _ROUNDS, _SCRIPTS = (
    f"{_FOLDER}test_{name}.py" for name in ("order", "ceilings", "changes", "recalls", "rounds", "scripts")
)
_NEXT = (
    Mistake(
        "team_shares.lua", "held < row.guarantee and held / row.guarantee - 2 or held / row.weight", "held / row.weight",
        "a team below its guarantee is not next",
        "test_of_the_teams_below_their_guarantee_the_emptiest_is_next", _ORDER,
    ),
    Mistake(
        "team_shares.lua", "held / row.guarantee - 2", "held - 1e6",
        "of the teams below their guarantee the one that holds least is next, however much it is to have",
        "test_of_the_teams_below_their_guarantee_the_emptiest_is_next", _ORDER,
    ),
    Mistake(
        "team_shares.lua", "- 2 or held / row.weight", "- 2 or held",
        "the weight of a team does not count", "test_what_is_held_follows_the_weights_within_one_lease", _ORDER,
    ),
    Mistake(
        "team_turns.lua", "return had(policy, team) * TIE end", "return 0 end",
        "of equal shares the first by name is always next", "test_one_slot_goes_round_by_weight", _SCRIPTS,
    ),
    Mistake(
        "team_turns.lua", "return math.max(tonumber(of or '0'), tonumber(floor or '0'))", "return tonumber(of or '0')",
        "a team that comes late catches up on what it has not asked for",
        "test_a_team_that_comes_late_does_not_catch_up", _ORDER,
    ),
    Mistake(
        "team_turns.lua", "  if before < MOST then return false end\n", "  do return false end\n",
        "what a team of a small weight has had counts for more than its share in the end",
        "test_what_teams_have_had_begins_anew", _ORDER,
    ),
    Mistake(
        "team_tickets.lua", "      elseif now > listed then\n", "      elseif false then\n",
        "a label of a team is served before its turn", "test_a_label_whose_tickets_want_something_takes_turns_too", _ORDER,
    ),
    Mistake(
        "team_tickets.lua", "if ticket and tonumber(score) <= tonumber(bound) then", "if ticket then",
        "a ticket of a team is served before an earlier one that wants something else",
        "test_of_the_tickets_of_a_label_that_want_different_things_the_first_is_served", _ORDER,
    ),
    Mistake(
        "team_tickets.lua", "    local suits = want == '-' or wants.suits(want, class)\n", "    local suits = true\n",
        "a slot goes to a ticket of the team that wants another kind",
        "test_a_waiter_whom_a_slot_does_not_suit_is_passed_by", _ORDER,
    ),
    Mistake(
        "team_waiters.lua", "    if not more then return nil, false end\n", "    do return nil, false end\n",
        "a team behind eight others that the slot does not suit is never served",
        "test_a_team_is_found_behind_others_whom_the_slot_does_not_suit", _ORDER,
    ),
)  # fmt: skip
_AT_CEILINGS = (
    Mistake(
        "fast_borrow.lua", " and not teams.is_full(label) then exact", " then exact",
        "a fast borrow goes over the ceiling of its team", "test_a_borrow_meets_the_ceiling", _CEILINGS,
    ),
    Mistake(
        "supply.lua", "  if pools.under_maintenance(pool) or served_caps.reached(pool) or teams.is_full(pool) then",
        "  if pools.under_maintenance(pool) or served_caps.reached(pool) then",
        "a borrow goes over the ceiling of its team", "test_a_borrow_meets_the_ceiling", _CEILINGS,
    ),
    Mistake(
        "choosing.lua", "served_caps.reached(pool) or teams.is_full(pool) then", "served_caps.reached(pool) then",
        "a borrow that wants a kind of slot goes over the ceiling of its team",
        "test_a_slot_that_is_wanted_for_what_it_has_counts", _CEILINGS,
    ),
    Mistake(
        "teams.lua", "if store.teams == '' or pool == '' then", "if store.teams == '' then",
        "a row for all pools counts what is no pool", "test_room_under_the_ceiling_is_kept", _CEILINGS,
    ),
    Mistake(
        "bundle_limits.lua", "  if not ceiling then return {} end\n", "  if true then return {} end\n",
        "a bundle goes over the ceiling of its team", "test_a_bundle_counts_with_all_its_slots", _CEILINGS,
    ),
    Mistake(
        "team_waiters.lua", "if not teams.at_ceiling(policy, team) then ticket", "if true then ticket",
        "a freed slot takes the room that is kept for a bundle of the team",
        "test_room_that_is_kept_for_a_bundle_goes_to_no_slot_of_another_pool_until_the_bundle_leaves", _CEILINGS,
    ),
    Mistake(
        "bundle_limits.lua", "  cell.caps = bundle_limits.ceiling(cell.pool, bundle_limits.live(t.wish), t.rooms, t.wish.team)\n",
        "  cell.caps = {}\n", "more is set aside than the team of a bundle has room for",
        "test_room_under_the_ceiling_is_kept_for_the_bundle_that_reserves", _CEILINGS,
    ),
    Mistake(
        "bundle_line.lua", "  if holder then call_state.teams", "  if false then call_state.teams",
        "room that is kept for a bundle no more serves nobody of its team",
        "test_room_that_is_kept_for_a_bundle_goes_to_no_slot_of_another_pool_until_the_bundle_leaves", _CEILINGS,
    ),
    Mistake(
        "serving.lua", "team_waiters.may_have(label, pool) and supply.take(pool) or nil", "supply.take(pool)",
        "a ticket waits beside a free slot while its team is at its ceiling in another pool",
        "test_a_waiter_for_several_pools_is_not_kept_by_the_first", _CEILINGS,
    ),
    Mistake(
        "team_shares.lua", "  if was_full and turns.anybody() then", "  if false then",
        "a lease that ends at the ceiling serves no other label",
        "test_a_lease_that_ends_serves_a_waiter_of_another_label_at_once", _CEILINGS,
    ),
    Mistake(
        "commands/teams/set.lua", "  for _, label in ipairs(labels) do serving.label(label, true) end", "",
        "a ceiling that is raised serves nobody", "test_a_ceiling_that_is_raised_serves_those_who_wait", _CEILINGS,
    ),
    Mistake(
        "turns.lua", "  for _, team in ipairs(redis.call('SMEMBERS', keys.team_parked(label))) do\n", "  for _, team in ipairs({}) do\n",
        "a label that was met at its cap is never found again",
        "test_a_label_that_was_passed_by_at_its_cap_is_found", _CEILINGS,
    ),
)  # fmt: skip
_COUNTS = (
    Mistake(
        "endings.lua", "  if store.teams ~= '' then team_shares.uncount(slot) end\n", "",
        "a lease that has ended counts for its team", "test_a_lease_is_counted_until_it_ends", _CHANGES,
    ),
    Mistake(
        "team_shares.lua", "redis.call('HMGET', keys.slot(slot), 'pool', 'holder')", "nil, nil",
        "a lease whose session is gone counts for its team for ever",
        "test_a_session_that_another_program_deleted_is_counted_no_more", _CHANGES,
    ),
    Mistake(
        "commands/sweeping/adopt_sessions.lua", "        team_shares.count(slot, redis.call('HGET', keys.slot(slot), 'pool') or '', '')\n", "",
        "a session of another program counts for no team",
        "test_a_session_that_another_program_wrote_is_counted_alike", _CHANGES,
    ),
    Mistake(
        "team_changes.lua", "if same ~= #before or same ~= #teams.all() then count_anew", "if false then count_anew",
        "leases of before the rows count for no team", "test_rows_that_come_later_count_what_is_there", _SCRIPTS,
    ),
    Mistake(
        "team_changes.lua", "  if not before[1] and store.teams ~= '' then make_lines() end\n", "",
        "a ticket of before the rows is never served", "test_rows_that_come_later_count_what_is_there", _SCRIPTS,
    ),
    Mistake(
        "team_changes.lua", "  if redis.call('EXISTS', keys.teams) == 0 then forget_lines() end\n", "",
        "lines of teams outlive the last row", "test_removing_the_last_row_leaves_no_key", _CHANGES,
    ),
    Mistake(
        "team_changes.lua", "ipairs(after[policy.pattern] and {} or redis", "ipairs(redis",
        "recalls begin anew with each change of rows", "test_a_change_of_other_rows_does_not_put_a_recall_off", _CHANGES,
    ),
    Mistake(
        "team_counts.lua", "granted_ms or numbers.whole(store.clock_ms), slot", "numbers.whole(store.clock_ms), slot",
        "all leases are as old as the rows", "test_the_newest_is_known_also_after_the_rows_have_changed", _RECALLS,
    ),
    Mistake(
        "commands/teams/recall.lua", "if a.number == '' or not numbers.above(", "if a.number == '' or false and numbers.above(",
        "a hub that knows earlier rows takes the later ones back",
        "test_rows_that_are_told_again_are_those_of_the_last_change", _CHANGES,
    ),
)  # fmt: skip
_RECALLED = (
    Mistake(
        "team_matches.lua", "return pools.serves(line.label, pool) and (line.want == '-' or wants.suits(line.want, class))", "return true",
        "leases are recalled that suit no ticket",
        "test_a_ticket_that_no_pool_of_the_pattern_serves_recalls_nothing", _RECALLS,
    ),
    Mistake(
        "team_matches.lua", "if is_open then return team_matches.use(state, each, line) end", "if is_open then return true end",
        "one recall is counted for all tickets that it suits", "test_two_teams_lack_and_each_has_its_guarantee", _RECALLS,
    ),
    Mistake(
        "team_matches.lua", "  return team_matches.change(", "  return false and team_matches.change(",
        "a recall is taken back and made anew where another one could change its ticket",
        "test_what_is_recalled_for_two_labels_stays_from_second_to_second", _ROUNDS,
    ),
    Mistake(
        "team_matches.lua", "elseif team_leases.above(policy, team, state.spare) >= #tied then\n", "else\n",
        "the end of a recalled lease ends others and takes their team below its guarantee",
        "test_a_recall_ends_no_bundle_that_takes_its_team_below_its_guarantee", _RECALLS,
    ),
    Mistake(
        "team_matches.lua", "state.spare[each.team] - #each.tied end", "state.spare[each.team] end",
        "more of a team is recalled than it has above its guarantee",
        "test_no_more_is_recalled_than_is_above_guarantees", _RECALLS,
    ),
    Mistake(
        "team_leases.lua", "teams.held(policy, team) - teams.row(policy, team).guarantee", "teams.held(policy, team)",
        "a lease of a team at its guarantee is recalled", "test_no_lease_at_or_below_a_guarantee_is_recalled", _SCRIPTS,
    ),
    Mistake(
        "team_recalls.lua", "(not most or has > most)", "(not most or has < most)",
        "a lease of the team that is least above its guarantee is recalled",
        "test_the_newest_lease_of_the_team_furthest_above_its_guarantee_is_recalled", _RECALLS,
    ),
    Mistake(
        "team_leases.lua", "redis.call('ZREVRANGE', keys.team_leases(", "redis.call('ZRANGE', keys.team_leases(",
        "the oldest lease is recalled", "test_the_newest_lease_of_the_team_furthest_above_its_guarantee_is_recalled", _RECALLS,
    ),
    Mistake(
        "team_rounds.lua", "state.pairs > 0 then team_recalls.release(state.policy, each.slot) end", "state.pairs > 0 then end",
        "a recall that nobody needs goes on", "test_a_recall_ends_when_nobody_lacks_anything", _SCRIPTS,
    ),
    Mistake(
        "team_leases.lua", "    elseif comes and team_leases.comes_back(slot, pool) then\n", "    elseif false then\n",
        "another lease is recalled while the slot of one is on its way",
        "test_no_other_lease_is_recalled_while_a_slot_is_in_its_grace", _RECALLS,
    ),
    Mistake(
        "team_leases.lua", "claimed or drains.holds_back(part) or", "claimed or",
        "a lease is recalled whose slot nobody will get", "test_a_lease_on_a_draining_node_is_not_recalled", _RECALLS,
    ),
    Mistake(
        "team_leases.lua", "return part and not (is_set_aside or unwell", "return part and not (unwell",
        "a slot that is set aside for a bundle counts as one on its way to a team",
        "test_a_slot_that_is_set_aside_for_a_bundle_comes_to_nobody_else", _ROUNDS,
    ),
    Mistake(
        "team_needs.lua", "return cap > 0 and cap - caps.taken(label) or math.huge", "return math.huge",
        "more is recalled than the cap of a label leaves room for",
        "test_no_more_is_recalled_than_the_cap_of_a_label_leaves_room_for", _ROUNDS,
    ),
    Mistake(
        "lease_limits.lua", "return math.min(latest, r.recall_ms or latest, hold or latest)", "return math.min(latest, hold or latest)",
        "a lease that is recalled is renewed on and on",
        "test_a_lease_above_the_guarantee_is_recalled_for_a_team_below_its_own", _SCRIPTS,
    ),
)  # fmt: skip
TEAMS = (*_NEXT, *_AT_CEILINGS, *_COUNTS, *_RECALLED)

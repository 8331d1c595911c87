"""Mistakes in bundles: all or none, the order of those that wait, and what is set aside."""

from __future__ import annotations

from tests.mutants.mistakes import Mistake

_FOLDER = "tests/capacity/bundles/"
_ENDS, _ASIDE, _PLACES, _SCRIPTS = (f"{_FOLDER}test_{name}.py" for name in ("ends", "set_aside", "places", "scripts"))
BUNDLES = (
    Mistake(
        "bundle_supply.lua", "  if whole then return found end\n", "  do return found end\n",
        "a bundle is lent although a slot of it was not there any more", "test_a_slot_that_another_program", _PLACES,
    ),
    Mistake(
        "bundle_supply.lua", "    if found[u] then supply.give_up(found[u]) end\n", "",
        "what was taken for a bundle in vain is lost", "test_a_slot_that_another_program", _PLACES,
    ),
    Mistake(
        "bundle_supply.lua", "bundle_plans.over_cap(wish, wish.reserves and caps.live or caps.taken)", "false",
        "a bundle is lent over the cap of a label",
        "test_a_cap_of_a_label_counts_all_slots_of_a_bundle", _PLACES,
    ),
    Mistake(
        "bundle_handoffs.lua", "  tickets.step_out(t)\n", "  redis.call('ZREM', keys.bundles, t.id)\n",
        "a bundle that was lent still counts as waiting, and its reserve goes on",
        "test_the_oldest_bundle_has_slots_set_aside_when_it_has_waited_too_long", _SCRIPTS,
    ),
    Mistake(
        "bundle_handoffs.lua", "'unseen', t.hub, ", "",
        "a return that comes twice ends a lease of a bundle of which its caller has not heard",
        "test_a_hub_that_vanishes_with_a_bundle_that_it_has_not_told_gives_all_back", _ENDS,
    ),
    Mistake(
        "bundle_handoffs.lua", "  if hubs.is_heard(t.hub) then return t end\n", "  do return t end\n",
        "a bundle is lent to the caller of a hub that is gone",
    ),
    Mistake(
        "bundle_handoffs.lua", "redis.call('ZRANGE', keys.bundles, 0, 7)", "redis.call('ZREVRANGE', keys.bundles, 0, 7)",
        "a freed slot completes the youngest bundle",
        "test_a_ticket_with_a_key_keeps_its_place_while_its_caller_is_away", _ENDS,
    ),
    Mistake(
        "bundle_wishes.lua", " and (part[2] == '' or wants.suits(part[2], class))", "",
        "a freed slot is set aside for a bundle that wants another kind",
        "test_the_first_part_of_a_bundle_leaves_room_under_a_served_cap_for_the_next", _PLACES,
    ),
    Mistake(
        "bundle_line.lua", "  local reserves = redis.call('HGET', keys.reserver, 'ticket') == ticket\n", "  local reserves = false\n",
        "a bundle that has left the line reserves on",
        "test_slots_that_were_set_aside_are_lent_when_the_bundle_is_given_up", _SCRIPTS,
    ),
    Mistake(
        "bundle_line.lua", "  call_state.unreserved = true\n", "",
        "what was set aside for a bundle that left waits for the next round",
        "test_the_oldest_bundle_has_slots_set_aside_when_it_has_waited_too_long", _SCRIPTS,
    ),
    Mistake(
        "bundle_line.lua", "    if label then call_state.headroom[#call_state.headroom + 1] = label end\n", "",
        "waiters stay beside free slots when no room under their cap is kept any more",
    ),
    Mistake(
        "caps.lua", "return caps.live(label) + (store.bundles", "return caps.live(label) + (false",
        "no room under the cap of a label is kept for the reserver",
        "test_singles_under_one_cap_with_a_bundle_do_not_starve_it", _ASIDE,
    ),
    Mistake(
        "served_caps.lua", "== label .. ':' then live = live + 1 end", "== label .. ':' then live = live end",
        "no room under a cap on what is served is kept for what is set aside",
        "test_singles_under_one_cap_with_a_bundle_do_not_starve_it", _ASIDE,
    ),
    Mistake(
        "reserver.lua", "if place ~= 'held' or held_slots.has_reason(slot, part) then return nil end",
        "if place ~= 'held' then return nil end",
        "a slot that became unwell, or drains, is lent because it was set aside",
        "test_a_node_that_drains_takes_back_what_is_set_aside", _ASIDE,
    ),
    Mistake(
        "reserver.lua", "  if suspects.is_suspect(node, part, reported) then suspects.hold_aside(slot, part, node) return nil end\n", "",
        "a slot of a silent node is lent because it was set aside",
        "test_a_slot_of_a_node_that_is_suspect_is_not_lent_until_the_node_is_heard", _ASIDE,
    ),
    Mistake(
        "reserver.lua", "  if after == before then return nil end\n", "",
        "slots are set aside that the reserver does not need",
        "test_no_more_is_set_aside_than_is_needed", _ASIDE,
    ),
    Mistake(
        "reserve_turns.lua", "  if not hubs.is_heard(t.hub) then\n", "  if false then\n",
        "a round lends to a bundle whose hub is silent",
        "test_a_bundle_whose_hub_is_silent_is_not_lent", _ASIDE,
    ),
    Mistake(
        "reserver.lua", " or not hubs.is_heard(t.hub) then return nil end", " then return nil end",
        "slots are set aside for a bundle whose hub is gone",
        "test_a_bundle_whose_hub_is_silent_is_not_lent", _ASIDE,
    ),
    Mistake(
        "reserver.lua", "(t.node ~= '' and t.node ~= part)", "false",
        "slots of other nodes are set aside for a bundle that is to be on one node",
        "test_a_bundle_chooses_another_node_when_its_own_is_lost", _ASIDE,
    ),
    Mistake(
        "bundle_rounds.lua", "    if not used[slot] then call_state.unneeded", "    if false then call_state.unneeded",
        "a slot that has changed stays set aside for a bundle that cannot use it",
        "test_a_slot_that_changes_so", _ASIDE,
    ),
    Mistake(
        "reserve_turns.lua", "store.clock_ms - since_ms >= patience_ms", "store.clock_ms >= patience_ms",
        "a bundle reserves before it has lost its patience",
        "test_a_cap_on_what_a_pool_serves_counts_all_slots_of_a_bundle", _PLACES,
    ),
    Mistake(
        "reserve_turns.lua", "store.clock_ms - t.reserves_since_ms < most_ms", "true",
        "a bundle reserves for ever",
        "test_a_bundle_goes_to_the_end_when_it_has_reserved_for_too_long", _SCRIPTS,
    ),
    Mistake(
        "commands/capacity/borrow_all.lua", "  serving.opened()  -- also of a pool whose", "  -- a pool whose",
        "waiters stay beside the slots of a pool when a bundle finds out that its maintenance is over",
        "test_waiting_borrows_get_the_slots_when_a_bundle_finds_the_maintenance_over", _ASIDE,
    ),
    Mistake(
        "reserve_turns.lua", "numbers.whole(store.clock_ms + most_ms)", "numbers.whole(store.clock_ms)",
        "a bundle that has reserved in vain reserves again as soon as it has waited for its patience",
        "test_a_bundle_that_has_reserved_in_vain_waits_as_long_again", _SCRIPTS,
    ),
    Mistake(
        "reserve_turns.lua", "  if bundle_plans.over_cap(t.wish, none) then return false end\n", "",
        "a bundle that is larger than the cap of its label keeps others from reserving",
        "test_a_bundle_larger_than_the_cap_of_its_label_reserves_nothing", _ASIDE,
    ),
    Mistake(
        "reserve_turns.lua", "  if not enough then bundle_line.end_reserve() end\n", "",
        "slots stay set aside for a bundle that can never have all",
        "test_a_bundle_that_is_more_than_what_is_left_reserves_no_more", _ASIDE,
    ),
    Mistake(
        "reserve_turns.lua", "enough = not drains.holds_back(t.node) and bundle", "enough = bundle",
        "a bundle waits on for a node that drains", "test_a_bundle_chooses_another_node_when_its_own_drains", _ASIDE,
    ),
    Mistake(
        "bundle_nodes.lua", "local lends = not live or not drains.holds_back(part)", "local lends = true",
        "a bundle reserves on a node that drains",
        "test_a_bundle_chooses_another_node_when_its_own_drains", _ASIDE,
    ),
    Mistake(
        "placing.lua", "  local set_aside = store.bundles and reserver.take(slot, pool, class, part)\n", "  local set_aside\n",
        "freed slots go to others before the bundle that reserves",
        "test_slots_are_set_aside_where_a_label_may_have_them", _PLACES,
    ),
    Mistake(
        "placing.lua", "  bundle_handoffs.freed(pool, class, part)\n", "",
        "a freed slot completes no bundle",
        "test_an_undo_takes_back_all_leases", _ENDS,
    ),
    Mistake(
        "placing.lua", "  if not store.bundles or served_caps.has_made_room(pool) then return", "  if not store.bundles then return",
        "a bundle takes the room under a cap on what is served before those who want one slot",
        "test_one_who_wants_one_slot_has_the_room_under_a_cap_before_a_bundle", _PLACES,
    ),
    Mistake(
        "bundles.lua", "  redis.call('HDEL', keys.bundle(id), record.slot)\n", "",
        "the record of a bundle names leases that have ended",
        "test_an_undo_takes_back_all_leases", _ENDS,
    ),
    Mistake(
        "bundles.lua", "  if by_holder or not together or", "  if not together or",
        "a holder that gives one slot back loses the others",
        "test_a_return_of_one_lease_ends_no_other", _SCRIPTS,
    ),
    Mistake(
        "bundles.lua", "  if by_holder or not together or", "  if by_holder or",
        "the end of one lease ends others that are not held together with it",
        "test_the_end_of_one_lease_ends_the_others_where_they_are_held_together", _SCRIPTS,
    ),
    Mistake(
        "bundle_ends.lua", "    revocations.revoke(each[1], revocations.grace_ms(), 'bundle')\n", "",
        "leases that end together end without the grace of their holder",
        "test_leases_that_are_held_together_end_together", _ENDS,
    ),
    Mistake(
        "serving.lua", "  if call_state.torn then bundle_ends.end_torn() end\n", "",
        "leases that are held together do not end together",
        "test_leases_that_are_held_together_end_together", _ENDS,
    ),
    Mistake(
        "releases.lua", "  local live = bundles.live(bundles.id_of(token))\n", "  local live = {}\n",
        "an undo takes back only one lease of a bundle",
        "test_an_undo_takes_back_all_leases", _ENDS,
    ),
    Mistake(
        "bundle_queue.lua", "  for _, each in ipairs(live) do tickets.settle_delivery(each[1], request) end\n", "",
        "leases of a bundle that were delivered count as undelivered",
        "test_a_bundle_that_was_fetched", _ENDS,
    ),
    Mistake(
        "commands/capacity/return_bundle.lua", "if holders.is_foreign(", "if false and holders.is_foreign(",
        "a caller ends a bundle of another",
        "test_a_bundle_is_held_by_one_and_ended_by_no_other", _ENDS,
    ),
    Mistake(
        "commands/capacity/undo.lua", "    serving.opened()\n    return {'left', how}", "    return {'left', how}",
        "what was set aside for a caller that gave up waits for the next round",
        "test_slots_are_offered_again_when_the_caller_gives_up", _ASIDE,
    ),
    Mistake(
        "commands/capacity/borrow_all.lua", "    if not later then queue.attend(", "    if true then queue.attend(",
        "a call that waits on takes the ticket of a bundle from a later one",
        "test_a_call_that_waits_on_leaves", _ENDS,
    ),
)  # fmt: skip

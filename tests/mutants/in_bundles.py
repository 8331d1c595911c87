"""Mistakes in bundles: all or none, the order of those that wait, and what is set aside."""

from __future__ import annotations

from tests.mutants.mistakes import Mistake

_ENDS, _ASIDE, _PLACES = (f"tests/capacity/bundles/test_{name}.py" for name in ("ends", "set_aside", "places"))
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
        "bundle_supply.lua", "bundle_plans.over_cap(wish, caps.taken)", "false",
        "a bundle is lent over the cap of a label",
    ),
    Mistake(
        "bundle_handoffs.lua", "  tickets.step_out(t)\n", "  redis.call('ZREM', keys.bundles, t.id)\n",
        "a bundle that was lent still counts as waiting, and its reserve goes on",
    ),
    Mistake(
        "bundle_handoffs.lua", "'unseen', t.hub, ", "",
        "a return that comes twice ends a lease of a bundle of which its caller has not heard",
    ),
    Mistake(
        "bundle_handoffs.lua", "  if hubs.is_heard(t.hub) then return t end\n", "  do return t end\n",
        "a bundle is lent to the caller of a hub that is gone",
    ),
    Mistake(
        "bundle_handoffs.lua", "redis.call('ZRANGE', keys.bundles, 0, 7)", "redis.call('ZREVRANGE', keys.bundles, 0, 7)",
        "a freed slot completes the youngest bundle",
    ),
    Mistake(
        "bundle_wishes.lua", " and (part[2] == '' or wants.suits(part[2], class))", "",
        "a freed slot is set aside for a bundle that wants another kind",
    ),
    Mistake(
        "bundle_line.lua", "  if redis.call('HGET', keys.reserver, 'ticket') == ticket then bundle_line.end_reserve() end\n", "",
        "a bundle that has left the line reserves on",
    ),
    Mistake(
        "bundle_line.lua", "  call_state.unreserved = true\n", "",
        "what was set aside for a bundle that left waits for the next round",
    ),
    Mistake(
        "bundle_line.lua", "    if label then call_state.headroom[#call_state.headroom + 1] = label end\n", "",
        "waiters stay beside free slots when no room under their cap is kept any more",
    ),
    Mistake(
        "caps.lua", "return caps.live(label) + (store.bundles", "return caps.live(label) + (false",
        "no room under the cap of a label is kept for the reserver",
    ),
    Mistake(
        "served_caps.lua", "== label .. ':' then live = live + 1 end", "== label .. ':' then live = live end",
        "no room under a cap on what is served is kept for what is set aside",
    ),
    Mistake(
        "reserver.lua", "if place ~= 'held' or held_slots.has_reason(slot, part) then return nil end",
        "if place ~= 'held' then return nil end",
        "a slot that became unwell, or drains, is lent because it was set aside",
    ),
    Mistake(
        "reserver.lua", "  if suspects.is_suspect(node, part, reported) then suspects.hold_aside(slot, part, node) return nil end\n", "",
        "a slot of a silent node is lent because it was set aside",
    ),
    Mistake(
        "reserver.lua", "  if after == before then return nil end\n", "",
        "slots are set aside that the reserver does not need",
    ),
    Mistake(
        "reserver.lua", " or not hubs.is_heard(t.hub) then return nil end", " then return nil end",
        "slots are set aside for a bundle whose hub is gone",
    ),
    Mistake(
        "reserver.lua", "(t.node ~= '' and t.node ~= part)", "false",
        "slots of other nodes are set aside for a bundle that is to be on one node",
    ),
    Mistake(
        "bundle_rounds.lua", "    if not used[slot] then call_state.unneeded", "    if false then call_state.unneeded",
        "a slot that has changed stays set aside for a bundle that cannot use it",
        "test_a_slot_that_changes_so", _ASIDE,
    ),
    Mistake(
        "bundle_rounds.lua", "bundle_plans.assign(t.wish, cells, true, kept)", "bundle_plans.assign(t.wish, cells, true)",
        "free slots are set aside instead of what is set aside already", "test_no_more_is_set_aside", _ASIDE,
    ),
    Mistake(
        "reserve_turns.lua", "store.clock_ms - since_ms >= patience_ms", "store.clock_ms >= patience_ms",
        "a bundle reserves before it has lost its patience",
    ),
    Mistake(
        "reserve_turns.lua", "  if store.clock_ms - t.reserves_since_ms >= most_ms then\n", "  if false then\n",
        "a bundle reserves for ever",
    ),
    Mistake(
        "reserve_turns.lua", "  if not hubs.is_heard(t.hub) then tickets.set_aside(t, 'hub') return false end\n", "",
        "a bundle reserves on when its hub is gone",
    ),
    Mistake(
        "reserve_turns.lua", "  if bundle_plans.over_cap(t.wish, none) then return false end\n", "",
        "a bundle that is larger than the cap of its label keeps others from reserving",
    ),
    Mistake(
        "reserve_turns.lua", "  if not enough then bundle_line.end_reserve() end\n", "",
        "slots stay set aside for a bundle that can never have all",
    ),
    Mistake(
        "reserve_turns.lua", "if t.node ~= '' and not drains.holds_back(t.node) then", "if t.node ~= '' then",
        "a bundle waits on for a node that drains", "test_a_bundle_chooses_another_node_when_its_own_drains", _ASIDE,
    ),
    Mistake(
        "bundle_nodes.lua", "local enough = not drains.holds_back(part) and", "local enough =",
        "a bundle reserves on a node that drains",
    ),
    Mistake(
        "placing.lua", "  local set_aside = store.bundles and reserver.take(slot, pool, class, part)\n", "  local set_aside\n",
        "freed slots go to others before the bundle that reserves",
    ),
    Mistake(
        "placing.lua", "  bundle_handoffs.freed(pool, class, part)\n", "",
        "a freed slot completes no bundle",
    ),
    Mistake(
        "placing.lua", "  if not store.bundles or served_caps.has_made_room(pool) then return", "  if not store.bundles then return",
        "a bundle takes the room under a cap on what is served before those who want one slot",
    ),
    Mistake(
        "bundles.lua", "  redis.call('HDEL', keys.bundle(id), record.slot)\n", "",
        "the record of a bundle names leases that have ended",
    ),
    Mistake(
        "bundles.lua", "  if by_holder or not together or call_state.torn[id] then return end\n",
        "  if not together or call_state.torn[id] then return end\n",
        "a holder that gives one slot back loses the others",
    ),
    Mistake(
        "bundles.lua", "  if by_holder or not together or", "  if by_holder or",
        "the end of one lease ends others that are not held together with it",
    ),
    Mistake(
        "bundle_ends.lua", "    revocations.revoke(each[1], revocations.grace_ms(), 'bundle')\n", "",
        "leases that end together end without the grace of their holder",
    ),
    Mistake(
        "serving.lua", "  for _, bundle in ipairs(call_state.torn) do bundle_ends.end_rest(bundle) end\n", "",
        "leases that are held together do not end together",
    ),
    Mistake(
        "releases.lua", "  local live = bundles.live(bundles.id_of(token))\n", "  local live = {}\n",
        "an undo takes back only one lease of a bundle",
    ),
    Mistake(
        "bundle_queue.lua", "  for _, each in ipairs(live) do tickets.settle_delivery(each[1], request) end\n", "",
        "leases of a bundle that were delivered count as undelivered",
    ),
    Mistake(
        "commands/capacity/return_bundle.lua", "if holders.is_foreign(", "if false and holders.is_foreign(",
        "a caller ends a bundle of another",
    ),
    Mistake(
        "commands/capacity/undo.lua", "    serving.opened()\n    return {'left', how}", "    return {'left', how}",
        "what was set aside for a caller that gave up waits for the next round",
    ),
    Mistake(
        "commands/capacity/borrow_all.lua", "    if not later then queue.attend(", "    if true then queue.attend(",
        "a call that waits on takes the ticket of a bundle from a later one",
    ),
)  # fmt: skip

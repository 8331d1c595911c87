"""Mistakes in holds of slots that are unwell, and in which machine keeps a node id."""

from __future__ import annotations

from tests.mutants.mistakes import Mistake

_HOLDS, _TOLD = "tests/capacity/nodes/test_holds.py", "tests/capacity/nodes/test_holds_told.py"
HOLDS = (
    Mistake(
        "held_slots.lua", " or holds.of(slot)\n", "\n",
        "a slot that is unwell is lent after its lease, or as its node drains no more",
    ),
    Mistake(
        "holds.lua", "  return place ~= 'lent'\n", "  return false\n",
        "a free slot that is unwell stays on offer, and one that is well again is not",
    ),
    Mistake(
        "holds.lua", "  return barred or unwell or nil,", "  return unwell or nil,",
        "a slot that an operator holds is lent while its node says that it is well",
    ),
    Mistake(
        "holds.lua", "if not numbers.above(number, last) or", "if",
        "an operator's hold of long ago comes back with its node after it was released",
    ),
    Mistake(
        "holds.lua", "tonumber(number) <= tonumber(last)", "tonumber(number) < tonumber(last)",
        "a word of a node that was said twice counts again after a later one", "test_a_late_word_of_a_node_changes_nothing", _HOLDS,
    ),
    Mistake(
        "holds.lua", " or holds.is_late(all, incarnation, number)\n", "\n",
        "a late word of a node changes what it has said of all slots since",
    ),
    Mistake(
        "commands/nodes/hold.lua", "  if says ~= 'own' then return {says} end\n", "",
        "a process that is the node no more holds and releases its slots",
        "test_a_process_that_is_the_node_no_more_holds_and_releases_nothing", _HOLDS,
    ),
    Mistake(
        "commands/nodes/hold.lua", "  if holds.is_late(told, a.incarnation, number) then return {'ok', {}} end\n", "",
        "a late word of a node about all its slots makes another late word count",
        "test_two_late_words_of_a_node_change_nothing", _HOLDS,
    ),
    Mistake(
        "commands/nodes/hold.lua", "if node ~= a.node or part ~= a.part then return", "if not part then return",
        "a node holds slots of another node", "test_a_call_about_a_slot_that_there_is_not_is_refused", _HOLDS,
    ),
    Mistake(
        "commands/nodes/hold.lua", "    if slot and not named[slot] then hear(slot, '') end\n", "",
        "a slot that a node does not name among all that it holds stays held",
    ),
    Mistake(
        "publications.lua", "    holds.publish(slot, a.part, said, unwell, called, barred, not record.item)\n    if token", "    if token",
        "a slot that is published as held is lent to a waiter first",
        "test_a_slot_that_is_published_as_held_is_never_on_offer", _HOLDS,
    ),
    Mistake(
        "holds.lua", " and say(slot, part, 'node', '') or again\n", " and false or again\n",
        "holds of a process that is gone last for ever",
        "test_holds_of_a_process_end_when_the_next_one_publishes_without_them", _HOLDS,
    ),
    Mistake(
        "commands/capacity/withdraw.lua", "  if store.holds then kept_holds.forget(a.slot) end\n", "",
        "a slot that was withdrawn is held when another one gets its id",
        "test_a_withdrawn_slot_forgets_the_hold_of_its_node", _HOLDS,
    ),
    Mistake(
        "slots.lua", "  if store.holds then kept_holds.enter(slot, part) end\n", "",
        "an operator's hold is gone with the next publication", "test_an_operators_hold_outlasts_a_new_publication", _HOLDS,
    ),
    Mistake(
        "foreign_items.lua", "if drains.holds_back(part) or holds.of(slot) then", "if drains.holds_back(part) then",
        "a program that knows the lists only has a slot lent that is unwell",
        "test_a_program_that_knows_the_lists_only_does_not_put_it_on_offer", _HOLDS,
    ),
    Mistake(
        "commands/capacity/adopt_items.lua", "(drains.holds_back(part) or holds.of(slot))", "drains.holds_back(part)",
        "a sweep leaves a slot on offer that is unwell",
        "test_a_program_that_knows_the_lists_only_does_not_put_it_on_offer", _HOLDS,
    ),
    Mistake(
        "holds.lua", "  if place == 'lent' then notifications.publish(keys.revoked_notice(slot), '') end\n", "",
        "a holder that waits is not told that its slot is unwell", "test_a_holder_that_waits_is_told_at_once", _TOLD,
    ),
    Mistake(
        "commands/capacity/hold.lua", "kept_holds.keep(a.slot, a.number, a.reason)", "local _ = 0",
        "an operator's hold is lost with the store when its node has not heard of it",
        "test_the_hub_that_took_an_operators_call_brings_it_back_after_a_wipe", _TOLD,
    ),
    Mistake(
        "kept_holds.lua", "  redis.call('HDEL', keys.node_holds(part), 'node:' .. slot, 'operator:' .. slot)\n", "",
        "a slot that was dropped is still among the held ones of its node",
    ),
    Mistake(
        "holds.lua", "keys.node_holds(before or part)", "keys.node_holds(part)",
        "a slot that moved to another key part is still among the held ones of the old one",
        "test_a_repair_moves_the_holds_of_a_slot_with_it_to_the_keys_of_its_node", "tests/doctor/test_repair.py",
    ),
    Mistake(
        "nodes.lua", ", keys.node_holds(part))", ")",
        "the held ones of a node outlast it where their records were lost",
        "test_holds_lie_beside_what_each_heartbeat_reads_and_go_with_the_node", _TOLD,
    ),
    Mistake(
        "commands/nodes/register.lua", " and silent_ms <= a.timeout_ms / 2 then", " then",
        "a node id stays with a machine that is silent", "test_a_process_on_another_host_takes_over", "tests/capacity/nodes/test_two_hosts.py",
    ),
    Mistake(
        "commands/nodes/register.lua", "      return {'in use', duty[3], math.max(0, math.floor(silent_ms))}\n", "",
        "two machines with one node id take turns", "test_a_process_on_another_host_does_not_take_over",
        "tests/capacity/nodes/test_two_hosts.py",
    ),
)  # fmt: skip

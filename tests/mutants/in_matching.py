"""Mistakes in what slots have, what tickets want, and the indexes of both."""

from __future__ import annotations

from tests.mutants.mistakes import Mistake

BOUNDS = "tests/machine/test_turn_bounds.py"
_SCRIPTS = "tests/capacity/matching/test_scripts.py"
_FAULTS = "tests/capacity/matching/test_faults.py"
MATCHING = (
    Mistake(
        "listings.lua",
        "  local turn = redis.call('ZSCORE', keys.turns, label)\n  for _, class in ipairs(classes.suiting(want))",
        "  local turn = 0\n  for _, class in ipairs(classes.suiting(want))",
        "a label is listed at turn 0 when a ticket enters, and too many are put right when a slot is freed",
        file=BOUNDS,
    ),
    Mistake(
        "class_counts.lua", "    cursor, count = class_listings.ask(class, cursor)\n", "    cursor, count = nil, 0\n",
        "tickets that wait are not listed under a class that is new",
    ),
    Mistake(
        "class_listings.lua", "  return left ~= '0' and left or nil, #some_lines\n", "  return nil, #some_lines\n",
        "a new class is held against the first lines alone where many wait",
        test="made_in_several_calls", file=_FAULTS,
    ),
    Mistake(
        "class_counts.lua", "  if generation ~= store.generation then", "  if not known then",
        "a class goes on being made on another server, where a cursor says nothing",
        test="from_the_beginning_on_another_server", file=_FAULTS,
    ),
    Mistake(
        "class_heads.lua", "page = #some == 2 * PAGE and page + PAGE", "page = false",
        "of many classes only the first are asked for a slot",
        test="of_many_sets_of_attributes", file=_SCRIPTS,
    ),
    Mistake(
        "class_counts.lua", "> 60000 then", "> 6000 then",
        "a class that is still being made loses its room to another",
        test="no_hub_goes_on_making", file=_FAULTS,
    ),
    Mistake(
        "class_counts.lua", "  class_listings.forget(class)\n", "",
        "labels stay listed under a class that no slot has any more",
    ),
    Mistake(
        "turns.lua", "  if may_be_parked and ", "  if false and ",
        "a label stands back from classes under which it was met at its cap, although the cap has room",
        "test_a_label_that_was_met_at_its_cap_is_served_once_the_cap_has_room",
        "tests/capacity/matching/test_faults.py",
    ),
    Mistake(
        "publications.lua",
        "    note = slot_classes.change(slot, record, attributes, warm, said.classes_max)\n    word = 'lent'\n",
        "    word = 'lent'\n",
        "a slot that gets other attributes while it is lent comes back with the old ones",
    ),
    Mistake(
        "listings.lua", "== 0 then listings.unlist(label, class) end", "== 2 then listings.unlist(label, class) end",
        "the end of a line leaves its label listed under the classes that suited",
    ),
    Mistake(
        "listings.lua", "'LT', score, want)", "'NX', score, want)",
        "a ticket that comes first by its priority does not lower the score of its line",
    ),
    Mistake(
        "lines.lua", "redis.call('ZUNIONSTORE', key_of(label, ''), 1, keys.queue(label))", "redis.call('PING')",
        "tickets that want nothing have no line when the first comes that wants something",
    ),
    Mistake(
        "choosing.lua", "  if want == '' then return supply.take(pool) end\n  return choosing",
        "  if prefer ~= '' then return nil end\n  if want == '' then return supply.take(pool) end\n  return choosing",
        "what is warm decides which pool serves",
    ),
    Mistake(
        "placing.lua", "if waiter and not class and redis", "if waiter and not (class or warm) and redis",
        "a warm slot just given back is handed on before one that has been free for longer",
        "test_a_warm_slot_that_comes_back_goes_to_the_tail", _SCRIPTS,
    ),
    Mistake(
        "placing.lua", "choosing.taker('', waiter.prefer)(pool)", "supply.take(pool)",
        "a waiter gets a slot in which nothing is warm that it prefers, beside one where that is so",
        "test_a_waiter_gets_what_it_prefers_of_those_free", _SCRIPTS,
    ),
    Mistake(
        "placing.lua", "      if warm then classes.enter(slot, pool, class, warm, free_slots.now_us()) end\n      local", "      local",
        "a warm slot that comes back while a waiter gets another is not listed as warm",
        "test_a_warm_slot_that_comes_back_goes_to_the_tail", _SCRIPTS,
    ),
    Mistake(
        "classes.lua", "do redis.call('ZREM', keys.warm(pool .. ' ' .. key), slot) end", "do redis.call('PING') end",
        "a slot that is lent stays listed as free and warm",
    ),
    Mistake(
        "wants.lua", "  local of = verdicts[class] or {}\n",
        "  local of = verdicts.last or {}\n  if class and class ~= '' then verdicts.last = of end\n",
        "what was said of one class is remembered for all",
    ),
    Mistake(
        "slot_classes.lua", "    if before[1] then class_counts.add(pool, before[1], -1) end\n", "",
        "a slot that changes its class is counted for both",
    ),
    Mistake(
        "waiters.lua", "  if ticket and not (plain[1] and tonumber(plain[2]) < score) then return ticket, want end\n",
        "  if ticket and not plain[1] then return ticket, want end\n",
        "tickets that want nothing come before earlier ones of their label that want something",
    ),
    Mistake(
        "choosing.lua", "(best_marked and not marked) or (best_marked == marked and since < best_since)",
        "since < best_since",
        "a slot that is about to be replaced is lent although another class has one that is not",
    ),
    Mistake(
        "choosing.lua", "local taken = found and free_slots.remove(pool, slot, found.item)",
        "local taken = found and {free_slots.remove(pool, slot, found.item)}",
        "a slot is lent that another program has taken out of the list",
    ),
    Mistake(
        "commands/capacity/adopt_items.lua", "classes.put_back(slot, a.pool, free_slots.now_us())", "redis.call('PING')",
        "a slot that another program took and put back is not found by what it has",
    ),
    Mistake(
        "serving.lua", "  if kept then matching", "  if false then matching",
        "tickets that want something stay beside free slots when the cap of their label has room again",
    ),
    Mistake(
        "serving.lua", "(anew or caps.of(label) > 0)", "caps.of(label) > 0",
        "tickets that want something stay beside free slots when the cap of their label is cleared",
    ),
    Mistake(
        "fits.lua", "    elseif now > turn and n < REPAIRS then\n", "    elseif false then\n",
        "a label is served by a turn that it has had",
    ),
    Mistake(
        "fits.lua", "    elseif tonumber(score) > tonumber(bound) then\n", "    elseif false then\n",
        "a want is served by the score of a ticket that has left",
        "test_a_ticket_that_leaves_gives_its_turn_to_no_later_ticket_that_wants_the_same",
        "tests/capacity/matching/test_faults.py",
    ),
    Mistake(
        "lines.lua", "  if want == '' then return turns.reoffer(label) end\n", "  if want == '' then return end\n",
        "a label is offered to any slot although all its tickets want something",
    ),
    Mistake(
        "serving_below.lua", "  if class and not pools.under_maintenance(pool) then\n", "  if class then\n",
        "a cap that has room again lends slots of a pool under maintenance",
    ),
)  # fmt: skip

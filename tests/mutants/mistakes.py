"""The mistakes: what stands in a script, what stands there instead, and what goes wrong then."""

from __future__ import annotations

from typing import NamedTuple


class Mistake(NamedTuple):
    """`old` stands exactly once in `lua/<script>`, or in the module where it names one below `hub/`."""

    script: str
    old: str
    new: str
    why: str
    test: str = ""  # the one of `file`, or of the regressions of the queue, that finds it: chance takes too long
    file: str = ""  # of tests that find it, all of them where none is named; a machine does where there is none

    @property
    def path(self) -> str:
        """Where it is planted."""
        return self.script if self.script.startswith("hub/") else f"lua/{self.script}"


GRANTS = (
    Mistake(
        "endings.lua", "  redis.call('ZREM', keys.in_flight(label), slot)\n", "",
        "a lease that ended still counts against the cap of its label",
    ),
    Mistake(
        "endings.lua", "  redis.call('ZREM', keys.deadlines, slot)\n", "",
        "a lease that ended leaves its deadline behind",
    ),
    Mistake(
        "endings.lua", "    orders.changed(part)\n", "",
        "a node does not hear that a lease of its slot ended",
    ),
    Mistake(
        "endings.lua", "keys.borrow_idle(slot), keys.browser_run(slot)", "keys.browser_run(slot)",
        "a lease that ended leaves its idle clock behind",
    ),
    Mistake(
        "endings.lua", "redis.call('ZREM', keys.run(run), slot)", "redis.call('ZREM', keys.run(run), '')",
        "a run is said to hold what it gave back",
    ),
    Mistake(
        "releases.lua", "if recycle_s ~= '0' and record.policy ~= 'reuse' then", "if recycle_s ~= '0' then",
        "a slot that may be reused is to be replaced",
    ),
    Mistake(
        "commands/capacity/undo.lua", "if others ~= '' then\n", "if false then\n",
        "a hub undoes the lease that its caller has fetched elsewhere",
    ),
    Mistake(
        "releases.lua", "if not live[1] and redis.call('HGET', keys.session(slot), 'leaseToken') == token then live", "if not live[1] then live",
        "an undo ends a later lease of the same slot",
    ),
    Mistake(
        "queue.lua", "  if held[1] ~= token then return {'over', slot} end\n", "  if not held[1] then return {'over', slot} end\n",
        "a repeat is answered with a lease that has another holder by now",
    ),
    Mistake(
        "commands/capacity/give_back.lua", "  local new = a.keyed == '' and held and held == a.token\n", "  local new = held and held == a.token\n",
        "a key that was used for another return ends a lease",
    ),
    Mistake(
        "commands/capacity/give_back.lua", "if a.token == '' and releases.is_late(record, a.run, a.arrived_ms) then return done('not lent', record.pool) end\n", "",
        "a return that comes twice ends the lease of the next in the queue",
    ),
    Mistake(
        "renewals.lua", "math.max(deadline, math.min(store.clock_ms + ttl_ms, latest))", "math.min(store.clock_ms + ttl_ms, latest)",
        "a renewal shortens a lease",
    ),
)  # fmt: skip

PLACES = (
    Mistake(
        "held_slots.lua", "return drains.holds_back(part) or revocations.believed_in(slot)", "return revocations.believed_in(slot)",
        "a slot that comes back to a draining node is offered",
    ),
    Mistake(
        "placing.lua", " and store.settle_left_ms <= 0 and not pools.under_maintenance(pool)\n", " and store.settle_left_ms <= 0\n",
        "a slot is handed on under maintenance",
    ),
    Mistake(
        "placing.lua", " and store.settle_left_ms <= 0 and", " and",
        "a slot is handed on before hubs have said what they lent",
    ),
    Mistake(
        "placing.lua", "if suspects.is_suspect(said[1], part, said[3]) then", "if false then",
        "a slot of a suspect node is handed on",
    ),
    Mistake(
        "placing.lua", "    if waiter and not class and redis.call('EXISTS', keys.available(pool)) == 1 then", "    if false then",
        "a slot just given back is handed on before one that has been free for longer",
    ),
    Mistake(
        "held_slots.lua", "return drains.holds_back(part) or revocations.believed_in(slot)", "return drains.holds_back(part)",
        "a slot is lent on while its last holder believes in it",
    ),
    Mistake(
        "revocations.lua", "  if grace_ms > 0 then revocations.keep", "  if false then revocations.keep",
        "it is not noted that a holder has yet to hear that its lease is over",
    ),
    Mistake(
        "commands/capacity/relend.lua", "'-inf', store.clock_ms,", "'-inf', store.clock_ms - 1,",
        "a grace lasts for longer than it should",
    ),
    Mistake(
        "releases.lua", "  revocations.forget(slot)\n  placing.offer_again(slot)\n", "",
        "a slot waits on after its last holder has stopped",
    ),
    Mistake(
        "releases.lua", " or redis.call('HGET', keys.revoked_tokens, slot) ~= token then return", " then return",
        "any caller can end the grace of the last holder",
    ),
    Mistake(
        "commands/capacity/relend.lua", "  placing.offer_again(slot)\n", "",
        "a slot whose last holder had its time is never offered again",
    ),
    Mistake(
        "supply.lua", "  if pools.under_maintenance(pool) or served_caps", "  if served_caps",
        "slots are lent under maintenance",
    ),
    Mistake(
        "supply.lua", "if found and not suspects.is_suspect(found.node, found.part, found.reported) then", "if found then",
        "slots of suspect nodes are lent",
    ),
    Mistake(
        "fast_borrow.lua", "redis.call('EXISTS', keys.maintenance(pool), ", "redis.call('EXISTS', ",
        "the short way to a lease knows no maintenance", "test_a_pool_under_maintenance_lends_nothing", "tests/capacity/test_maintenance.py",
    ),
    Mistake(
        "fast_borrow.lua", ", keys.recycle(slot), keys.request(attempt)) or 2", ", keys.recycle(slot)) or 2",
        "the short way to a lease is gone twice by one call",
    ),
    Mistake(
        "fast_borrow.lua", "found and not suspects.is_suspect(found.node, found.part, found.reported)", "found",
        "the short way to a lease leads to slots of suspect nodes", "test_slots_of_a_suspect_node_are_not_lent", "tests/capacity/queue/test_suspect.py",
    ),
    Mistake(
        "fast_borrow.lua", "  redis.call('LMOVE', inuse, available, 'RIGHT', 'LEFT')\nend\n", "end\n",
        "a slot that is not lent at once is in the in-use list for good",
    ),
    Mistake(
        "supply.lua", "      if not marked[i] then\n", "      if marked[i] then\n",
        "a slot about to be replaced is lent before others",
    ),
    Mistake(
        "matching.lua", "  if store.prefix ~= '1' then return nil end\n", "",
        "a label is served by longer ones although that is switched off",
    ),
    Mistake(
        "nodes.lua", "      endings.end_lease(record)\n", "",
        "leases outlive their node",
    ),
    Mistake(
        "nodes.lua", "  redis.call('SREM', keys.draining, id)\n", "",
        "a node that left is listed as draining",
    ),
    Mistake(
        "pools.lua", "    and redis.call('SINTERCARD', 2, keys.pool_slots(pool), keys.replacing(pool), 'LIMIT', 1) == 0\n", "",
        "a maintenance ends before every slot was replaced",
    ),
    Mistake(
        "publications.lua", "    redis.call('DEL', keys.recycle(slot))\n", "",
        "a slot just published is to be replaced",
    ),
    Mistake(
        "belonging.lua", "    return 'reserved', other\n", "    return nil\n",
        "a node puts a slot on offer whose id names another one",
    ),
    Mistake(
        "releases.lua", "and not record.claimed then", "then",
        "a slot that the node claimed whose name it bears stays with another one after the lease",
        "when_the_lease_ends", "tests/capacity/test_belonging.py",
    ),
    Mistake(
        "commands/nodes/drain.lua", "elseif drains_away ~= (a.on == '1') then", "elseif false then",
        "the last batches of a drain go on after it was switched back",
    ),
    Mistake(
        "commands/sweeping/end_drained.lua", "if tonumber(due) > store.clock_ms then return {'nothing'} end\n", "",
        "a drain ends leases before its deadline",
    ),
    Mistake(
        "commands/nodes/expire.lua", "if word == 'stale' and store.reporting then word = 'fresh' end", "",
        "nodes are expired that could not be heard",
    ),
)  # fmt: skip

LINE = (
    Mistake(
        "tickets.lua", "  if redis.call('HINCRBY', keys.pending, t.run, -1) <= 0 then redis.call('HDEL', keys.pending, t.run) end\n", "",
        "a waiter that left still counts against the limit of its run",
    ),
    Mistake(
        "lines.lua", "  if redis.call('EXISTS', keys.queue(label)) == 0 then turns.reoffer(label) end\n", "",
        "a label keeps its turn when no borrower waits for it any more",
    ),
    Mistake(
        "tickets.lua", "  redis.call('ZREM', keys.ticket_deadlines, t.id)\n", "",
        "a waiter who was served is dropped for waiting too long",
    ),
    Mistake(
        "tickets.lua", "  redis.call('DEL', keys.ticket(t.id))\n", "",
        "the ticket of a waiter who is gone is never dropped",
    ),
    Mistake(
        "hubs.lua", "return ticked_ms and store.clock_ms - ticked_ms <= hubs.SILENT_MS", "return ticked_ms",
        "slots are handed to waiters whose hub is dead",
    ),
    Mistake(
        "waiters.lua", "redis.call('ZRANGE', turns.plain(label), 0, 0, 'WITHSCORES')", "redis.call('ZRANGE', turns.plain(label), -1, -1, 'WITHSCORES')",
        "the last in the queue is served first",
    ),
    Mistake(
        "waiters.lua", "its_turn < turn", "its_turn > turn",
        "the label that was served last is served next",
    ),
    Mistake(
        "pools.lua", "  if left then return store.trailing == '1' end\n", "  if left then return false end\n",
        "a label with * is never served by a shorter pool",
    ),
    Mistake(
        "handoffs.lua", "  if redis.call('ZSCORE', keys.turns, t.label) then turns.take(t.label) end\n", "",
        "a label with many waiters is served again and again",
    ),
    Mistake(
        "handoffs.lua", "'unseen', t.hub, ", "",
        "it is not noted whether a lease was picked up",
    ),
    Mistake(
        "handoffs.lua", "  redis.call('SADD', keys.handed(t.hub), t.id)\n", "",
        "a lease whose hub died before it was delivered is never taken back",
    ),
    Mistake(
        "endings.lua", "    turns.reoffer(label)\n", "",
        "a label below its cap again is not offered",
    ),
    Mistake(
        "endings.lua", "    call_state.headroom[#call_state.headroom + 1] = label\n", "",
        "a label below its cap again gets none of the slots that are free already",
    ),
    Mistake(
        "pools.lua", "  call_state.reopened[#call_state.reopened + 1] = pool\n", "",
        "slots stay free beside waiters when a maintenance ends",
    ),
    Mistake(
        "serving.lua", "    and not caps.reached(label) do\n", "    do\n",
        "slots are taken for a label at its cap",
    ),
    Mistake(
        "turns.lua", "  if turn and caps.reached(label) then turn = false end\n", "",
        "labels at their cap are offered",
    ),
    Mistake(
        "caps.lua", "caps.taken(label) >= cap", "caps.taken(label) > cap",
        "one lease more than the cap allows",
    ),
    Mistake(
        "caps.lua", "set[1] or set[2] or set[3] or set[4]", "set[2] or set[1] or set[3] or set[4]",
        "the cap of the environment wins over the one set at run time",
    ),
    Mistake(
        "queue.lua", "  owners = tickets.settle_delivery(slot, request) and attempt or attempts.add(owners, attempt)\n",
        "  owners = attempts.add(owners, attempt)\n",
        "a lease picked up at another hub is taken back when the first one dies",
    ),
    Mistake(
        "queue.lua", "  if t.hub ~= hub then redis.call('SREM', keys.waiters(t.hub), t.id) end\n", "",
        "a waiter who changed hubs is dropped with the first one",
    ),
    Mistake(
        "queue_order.lua", "format('%.17g', at_ms - priority * 1000", "format('%.17g', at_ms + priority * 1000",
        "the urgent wait longest",
    ),
    Mistake(
        "queue.lua", "if waiting >= max_label then", "if waiting > max_label then",
        "one waiter more than a label may have",
    ),
    Mistake(
        "newcomers.lua", "not (waiter and caps.reached(label)) and matching.find(label, take, among)", "matching.find(label, take, among)",
        "a newcomer gets a lease above the cap that waiters have just reached",
        "test_a_newcomer_cannot_exceed_a_cap_that_a_waiter_has_just_reached",
    ),
    Mistake(
        "newcomers.lua", "    waiter = turns.anybody() and waiters.next(found.pool, found.class)\n", "",
        "a newcomer overtakes those who wait",
    ),
    Mistake(
        "commands/capacity/borrow.lua", "(a.keyed == '1' or a.repeated == '1' or turns.anybody()) and tickets.read", "(a.keyed == '1' or a.repeated == '1') and tickets.read",
        "a borrow that is sent twice stands in the queue anew",
    ),
    Mistake(
        "commands/capacity/lend_now.lua", "if store.anybody_waits or store.settle_left_ms", "if store.settle_left_ms",
        "the short way to a lease overtakes those who wait",
    ),
    Mistake(
        "commands/capacity/lend_now.lua", " or caps.reached(a.label)\n", "\n",
        "the short way to a lease knows no cap",
    ),
    Mistake(
        "commands/capacity/undo.lua", "redis.call('SREM', keys.handed(a.hub), a.request)", "",
        "a hub owes a lease that it has given back",
    ),
    Mistake(
        "commands/queue/retire.lua", "  if t.label then history.ticket('ticket.left', t, tickets.step_out(t) and 'timeout' or 'forgotten') end\n", "",
        "who waited too long stays in the queue without a ticket",
    ),
    Mistake(
        "commands/queue/cancel.lua", "redis.call('SET', keys.request(a.ticket), 'undone', 'EX', 60)\n", "",
        "a caller stands in the queue again after its ticket was cancelled",
    ),
)  # fmt: skip

SERVING = (
    Mistake(
        "commands/nodes/expire.lua", "nodes.remove(a.id, a.part, a.limit) end\n    serving.opened()\n", "nodes.remove(a.id, a.part, a.limit) end\n",
        "what the removal of the last slots of an expired node makes possible is not served",
        "test_the_end_of_a_lease_lets_a_waiter_below_its_cap_take_a_slot_of_another_pool",
    ),
    Mistake(
        "commands/capacity/publish.lua", "serving.opened()\n", "",
        "what a publication makes possible is not served",
        "test_a_publication_that_ends_a_maintenance_serves_all_waiters",
    ),
    Mistake(
        "commands/nodes/beat.lua", "serving.opened()\n", "",
        "what a beat makes possible is not served",
        "ends_a_maintenance_serves_all_waiters",
    ),
    Mistake(
        "commands/nodes/prune.lua", "serving.opened()\n", "",
        "what the removal of the last slots of a node makes possible is not served",
        "test_removing_the_last_slots_of_a_node_serves_a_waiter_below_a_cap",
    ),
    Mistake(
        "commands/nodes/resume.lua", "serving.opened()\n", "",
        "what the return of a suspect makes possible is not served",
        "ends_a_maintenance_serves_all_waiters",
    ),
    Mistake(
        "commands/queue/review.lua", "serving.opened()\n", "",
        "what a review makes possible is not served",
        "test_reading_one_queue_that_ends_a_maintenance_serves_waiters_of_other_queues",
    ),
    Mistake(
        "commands/queue/set_cap.lua", "    serving.label(a.label, true)\n    serving.opened()\n", "    serving.label(a.label, true)\n",
        "what a higher cap makes possible is not served",
        "test_reading_one_queue_that_ends_a_maintenance_serves_waiters_of_other_queues",
    ),
    *(
        Mistake(
            script, "serving.opened()\n", "", f"what {what} makes possible is not served",
            "test_the_end_of_a_lease_lets_a_waiter_below_its_cap_take_a_slot_of_another_pool",
        )
        for script, what in {
            "commands/capacity/lapse.lua": "a lapse",
            "commands/capacity/withdraw.lua": "a withdrawal",
            "commands/nodes/leave.lua": "a leave",
            "commands/sweeping/end_drained.lua": "the deadline of a drain",
            "commands/queue/retire.lua": "the end of a hub",
        }.items()
    ),
    Mistake(
        "commands/capacity/undo.lua", "  serving.opened()\n  return freed", "  return freed",
        "what an undo makes possible is not served",
        "test_the_end_of_a_lease_lets_a_waiter_below_its_cap_take_a_slot_of_another_pool",
    ),
    *(
        Mistake(script, "serving.opened()\n", "", f"what {what} makes possible is not served")
        for script, what in {
            "commands/capacity/give_back.lua": "a return",
            "commands/capacity/describe_pools.lua": "the end of a maintenance that is looked at",
        }.items()
    ),
)  # fmt: skip

FRESHNESS = (
    Mistake(
        "held_slots.lua", " or freshness.is_owed(slot) or", " or",
        "a used slot is handed to a waiter before it was made fresh",
    ),
    Mistake(
        "releases.lua", "  if record.policy == 'fresh' then\n", "  if false then\n",
        "the end of a lease leaves a slot as if it were fresh",
    ),
    Mistake(
        "freshness.lua", "if not owed or numbers.above(owed, number) or", "if not owed or",
        "a late word about an earlier end frees a slot that was used since",
    ),
    Mistake(
        "freshness.lua", " or numbers.above(number, store.token) then", " then",
        "a slot is freed for an end that no node can have been told of",
    ),
    Mistake(
        "freshness.lua", "  if policy == 'fresh' and place == 'lent' then owed = lease_texts.next_token() end\n", "",
        "a node that was removed offers a slot that was lent as a fresh one",
        "test_it_is_held_back_however_the_lease_ends", "tests/capacity/nodes/test_fresh.py",
    ),
    Mistake(
        "freshness.lua", "numbers.above(last, number) or ", "",
        "a node that was removed offers a used slot as a fresh one",
        "test_it_is_held_back_however_the_lease_ends", "tests/capacity/nodes/test_fresh.py",
    ),
    Mistake(
        "freshness.lua", "local unknown = before and before ~= 'fresh'", "local unknown = false",
        "a slot that gets this policy with another address is lent as the last borrower left it",
        "test_a_slot_that_gets_the_policy_is_made_fresh_once", "tests/capacity/nodes/test_fresh.py",
    ),
    Mistake(
        "freshness.lua", "if owed or (before == 'fresh' and", "if owed or (true and",
        "a slot that gets this policy is lent as the last borrower left it",
        "test_a_slot_that_gets_the_policy_is_made_fresh_once", "tests/capacity/nodes/test_fresh.py",
    ),
    Mistake(
        "commands/nodes/recycled.lua", "  if word ~= 'own' then return {word} end\n", "",
        "a process that is the node no more frees a slot that the present one has not made fresh",
        "test_only_its_node_makes_a_slot_fresh", "tests/capacity/nodes/test_fresh.py",
    ),
    Mistake(
        "commands/capacity/adopt_items.lua", "if a.place == 'free' and fresh then", "if false then",
        "a program that knows the lists only makes a used slot a free one",
        "test_a_program_that_knows_the_lists_only_does_not_break_it", "tests/capacity/nodes/test_fresh.py",
    ),
)  # fmt: skip
MISTAKES = (*GRANTS, *PLACES, *LINE, *SERVING, *FRESHNESS)

"""The mistakes: what stands in a script, what stands there instead, and what goes wrong then."""

from __future__ import annotations

from typing import NamedTuple


class Mistake(NamedTuple):
    """`old` stands exactly once in `lua/<script>`."""

    script: str
    old: str
    new: str
    why: str


GRANTS = (
    Mistake(
        "include/end_grant.lua", "    redis.call('ZREM', key_asked(label), slot)\n", "",
        "a grant that ended still counts against the cap of its label",
    ),
    Mistake(
        "include/end_grant.lua", "  redis.call('ZREM', key_deadlines, slot)\n", "",
        "a grant that ended leaves its deadline behind",
    ),
    Mistake(
        "include/end_grant.lua", "    redis.call('HINCRBY', key_duty(part), 'version', 1)\n", "",
        "a node does not hear that a grant of its slot ended",
    ),
    Mistake(
        "include/end_grant.lua", "key_borrow_idle(slot), key_browser_run(slot)", "key_browser_run(slot)",
        "a grant that ended leaves its idle clock behind",
    ),
    Mistake(
        "include/end_grant.lua", "redis.call('ZREM', key_run(run), slot)", "redis.call('ZREM', key_run(run), '')",
        "a run is said to hold what it gave back",
    ),
    Mistake(
        "include/release.lua", "if recycle_s > 0 and record.policy ~= 'reuse' then", "if recycle_s > 0 then",
        "a slot that may be reused is to be replaced",
    ),
    Mistake(
        "capacity/undo.lua", "if others ~= '' then\n", "if false then\n",
        "a hub undoes the grant that its caller has fetched elsewhere",
    ),
    Mistake(
        "include/take_back.lua", "if redis.call('HGET', key_session(slot), 'leaseToken') ~= token then return nil end\n", "",
        "an undo ends a later grant of the same slot",
    ),
    Mistake(
        "include/stand.lua", "  if held[1] ~= token then return {'over', slot} end\n", "  if not held[1] then return {'over', slot} end\n",
        "a repeat is answered with the grant that somebody else holds by now",
    ),
    Mistake(
        "capacity/give_back.lua", "if token == '' and record.place == 'lent' and late then return done('not lent', record.pool) end\n", "",
        "a return that comes twice ends the grant of the next in line",
    ),
    Mistake(
        "capacity/renew.lua", "math.max(deadline, math.min(clock_ms + ttl_ms, latest))", "math.min(clock_ms + ttl_ms, latest)",
        "a renewal shortens a lease",
    ),
)  # fmt: skip

PLACES = (
    Mistake(
        "include/place_free.lua", "if redis.call('HGET', key_duty(part), 'drain') or believed_in(slot) then", "if believed_in(slot) then",
        "a slot that comes back to a draining node is offered",
    ),
    Mistake(
        "include/place_free.lua", " and settle_left_ms <= 0 and not under_maintenance(pool) then", " and settle_left_ms <= 0 then",
        "a slot is handed on under maintenance",
    ),
    Mistake(
        "include/place_free.lua", " and settle_left_ms <= 0 and", " and",
        "a slot is handed on before hubs have said what they lent",
    ),
    Mistake(
        "include/place_free.lua", "if suspect(said[1], part, said[3]) then", "if false then",
        "a slot of a suspect node is handed on",
    ),
    Mistake(
        "include/place_free.lua", "    if waiter and redis.call('EXISTS', key_available(pool)) == 1 then", "    if false then",
        "a slot just given back is handed on before one that has been free for longer",
    ),
    Mistake(
        "include/place_free.lua", "if redis.call('HGET', key_duty(part), 'drain') or believed_in(slot) then", "if redis.call('HGET', key_duty(part), 'drain') then",
        "a slot is lent on while its last holder believes in it",
    ),
    Mistake(
        "include/revoke.lua", "  if grace_ms > 0 then\n", "  if false then\n",
        "nobody notes that a holder has yet to hear that his grant is over",
    ),
    Mistake(
        "include/revoke.lua", "tonumber(until_ms) > clock_ms", "tonumber(until_ms) >= clock_ms",
        "a grace lasts for longer than it should",
    ),
    Mistake(
        "capacity/give_back.lua", "    forget_revoked(slot)\n    offer_again(slot)\n", "",
        "a slot waits on after its last holder has stopped",
    ),
    Mistake(
        "capacity/give_back.lua", " and redis.call('HGET', key_revoked_tokens, slot) == token then", " then",
        "the word of anybody ends the grace of the last holder",
    ),
    Mistake(
        "capacity/relend.lua", "  offer_again(slot)\n", "",
        "a slot whose last holder had his time is never offered again",
    ),
    Mistake(
        "include/take.lua", "  if under_maintenance(pool) then return nil end\n", "",
        "slots are lent under maintenance",
    ),
    Mistake(
        "include/take.lua", "if found and not suspect(found.node, found.part, found.reported) then", "if found then",
        "slots of suspect nodes are lent",
    ),
    Mistake(
        "include/take.lua", "      if not marked[i] then\n", "      if marked[i] then\n",
        "a slot about to be replaced is lent before others",
    ),
    Mistake(
        "include/match.lua", "  if prefix ~= '1' then return nil end\n", "",
        "a label is served by longer ones although that is switched off",
    ),
    Mistake(
        "include/remove_node.lua", "      end_grant(slot, record[4], record[5], part)\n", "",
        "grants outlive their node",
    ),
    Mistake(
        "include/remove_node.lua", "  redis.call('SREM', key_draining, id)\n", "",
        "a node that left is listed as draining",
    ),
    Mistake(
        "include/maintenance.lua", "    and redis.call('SINTERCARD', 2, key_pool_slots(pool), key_replacing(pool), 'LIMIT', 1) == 0\n", "",
        "a maintenance ends before every slot was replaced",
    ),
    Mistake(
        "capacity/publish.lua", "    redis.call('DEL', key_recycle(slot))\n", "",
        "a slot just published is to be replaced",
    ),
    Mistake(
        "nodes/drain.lua", "elseif drains ~= (on == '1') then", "elseif false then",
        "the last bites of a drain go on after it was switched back",
    ),
    Mistake(
        "sweeping/end_drained.lua", "if tonumber(due) > clock_ms then return {'nothing'} end\n", "",
        "a drain ends grants before its deadline",
    ),
    Mistake(
        "nodes/expire.lua", "if word == 'stale' and reporting then word = 'fresh' end", "",
        "nodes are expired that could not be heard",
    ),
)  # fmt: skip

LINE = (
    Mistake(
        "include/ticket.lua", "  if redis.call('HINCRBY', key_pending, t.run, -1) <= 0 then redis.call('HDEL', key_pending, t.run) end\n", "",
        "a waiter who left still counts against the limit of his run",
    ),
    Mistake(
        "include/ticket.lua", "  if redis.call('EXISTS', key_line(t.label)) == 0 then reoffer(t.label) end\n", "",
        "a label keeps its turn when nobody waits for it any more",
    ),
    Mistake(
        "include/ticket.lua", "  redis.call('ZREM', key_patience, t.id)\n", "",
        "a waiter who was served is dropped for waiting too long",
    ),
    Mistake(
        "include/ticket.lua", "  redis.call('DEL', key_ticket(t.id))\n", "",
        "the ticket of a waiter who is gone is never dropped",
    ),
    Mistake(
        "include/ticket.lua", "return ticked_ms and clock_ms - ticked_ms <= SILENT_MS", "return ticked_ms",
        "slots are handed to waiters whose hub is dead",
    ),
    Mistake(
        "include/next_waiter.lua", "redis.call('ZRANGE', key_line(label), 0, 0)[1]", "redis.call('ZRANGE', key_line(label), -1, -1)[1]",
        "the last in line is served first",
    ),
    Mistake(
        "include/next_waiter.lua", "its_turn < turn", "its_turn > turn",
        "the label that was served last is served next",
    ),
    Mistake(
        "include/next_waiter.lua", "  if left then return trailing == '1' end\n", "  if left then return false end\n",
        "a label with * is never served by a shorter pool",
    ),
    Mistake(
        "include/hand_on.lua", "  if redis.call('ZSCORE', key_turns, t.label) then take_turn(t.label) end\n", "",
        "a label with many waiters is served again and again",
    ),
    Mistake(
        "include/hand_on.lua", "  redis.call('HSET', key_slot(found.slot), 'unseen', t.hub)\n", "",
        "nobody knows whether a grant was picked up",
    ),
    Mistake(
        "include/hand_on.lua", "  redis.call('SADD', key_handed(t.hub), t.id)\n", "",
        "a grant whose hub died before it was delivered is never taken back",
    ),
    Mistake(
        "include/end_grant.lua", "      reoffer(label)\n", "",
        "a label below its cap again is not offered",
    ),
    Mistake(
        "include/end_grant.lua", "      headroom[#headroom + 1] = label\n", "",
        "a label below its cap again gets none of the slots that are free already",
    ),
    Mistake(
        "include/maintenance.lua", "  reopened[#reopened + 1] = pool\n", "",
        "slots stay free beside waiters when a maintenance ends",
    ),
    Mistake(
        "include/serve.lua", "and redis.call('EXISTS', key_line(label)) == 1 and not capped(label) do", "and redis.call('EXISTS', key_line(label)) == 1 do",
        "slots are taken for a label at its cap",
    ),
    Mistake(
        "include/turns.lua", "  if turn and capped(label) then turn = false end\n", "",
        "labels at their cap are offered",
    ),
    Mistake(
        "include/caps.lua", "redis.call('ZCARD', key_asked(label)) >= cap", "redis.call('ZCARD', key_asked(label)) > cap",
        "one grant more than the cap allows",
    ),
    Mistake(
        "include/caps.lua", "caps[1] or caps[2] or caps[3] or caps[4]", "caps[2] or caps[1] or caps[3] or caps[4]",
        "the cap of the environment wins over the one set at run time",
    ),
    Mistake(
        "include/stand.lua", "  owners = settle_delivery(slot, request) and attempt or add_owner(owners, attempt)\n",
        "  owners = add_owner(owners, attempt)\n",
        "a grant picked up at another hub is taken back when the first one dies",
    ),
    Mistake(
        "include/stand.lua", "  if t.hub ~= hub then redis.call('SREM', key_waiters(t.hub), t.id) end\n", "",
        "a waiter who changed hubs is dropped with the first one",
    ),
    Mistake(
        "include/stand.lua", "at_ms - priority * 1000", "at_ms + priority * 1000",
        "the urgent wait longest",
    ),
    Mistake(
        "include/stand.lua", "if waiting >= max_label then", "if waiting > max_label then",
        "one waiter more than a label may have",
    ),
    Mistake(
        "capacity/borrow.lua", "not (waiter and capped(label)) and match(label)", "match(label)",
        "a newcomer gets a grant above the cap that waiters have just reached",
    ),
    Mistake(
        "capacity/borrow.lua", "    waiter = somebody_waits() and next_waiter(found.pool)\n", "",
        "a newcomer overtakes those who wait",
    ),
    Mistake(
        "capacity/borrow.lua", "(keyed == '1' or repeated == '1' or somebody_waits()) and read_ticket", "(keyed == '1' or repeated == '1') and read_ticket",
        "a borrow that is sent twice stands in line anew",
    ),
    Mistake(
        "capacity/lend_now.lua", "if opened[9] == '1' or settle_left_ms", "if settle_left_ms",
        "the short way to a grant overtakes those who wait",
    ),
    Mistake(
        "capacity/lend_now.lua", " or capped(label)\n", "\n",
        "the short way to a grant knows no cap",
    ),
    Mistake(
        "capacity/undo.lua", "redis.call('SREM', key_handed(hub), request)", "",
        "a hub owes a grant that it has given back",
    ),
    Mistake(
        "line/retire.lua", "  if t.label then note_ticket('ticket.left', t, step_out(t) and 'timeout' or 'forgotten') end\n", "",
        "who waited too long stays in line without a ticket",
    ),
    Mistake(
        "line/cancel.lua", "redis.call('SET', key_request(ticket), 'undone', 'EX', 60)\n", "",
        "a caller stands in line again after his ticket was cancelled",
    ),
)  # fmt: skip

SERVING = (
    Mistake(
        "nodes/expire.lua", "remove_node(id, part, limit) end\n  serve_opened()\n", "remove_node(id, part, limit) end\n",
        "what the removal of the last slots of an expired node makes possible is not served",
    ),
    *(
        Mistake(script, "serve_opened()\n", "", f"what {what} makes possible is not served")
        for script, what in {
            "capacity/give_back.lua": "a return",
            "capacity/lapse.lua": "a lapse",
            "capacity/publish.lua": "a publication",
            "capacity/withdraw.lua": "a withdrawal",
            "capacity/undo.lua": "an undo",
            "capacity/describe_pools.lua": "the end of a maintenance that is looked at",
            "nodes/beat.lua": "a beat",
            "nodes/leave.lua": "a leave",
            "nodes/prune.lua": "the removal of the last slots of a node",
            "nodes/resume.lua": "the return of a suspect",
            "sweeping/end_drained.lua": "the deadline of a drain",
            "line/retire.lua": "the end of a hub",
            "line/review.lua": "a review",
            "line/set_cap.lua": "a higher cap",
        }.items()
    ),
)  # fmt: skip

MISTAKES = (*GRANTS, *PLACES, *LINE, *SERVING)

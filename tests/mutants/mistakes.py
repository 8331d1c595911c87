"""The mistakes: what stands in a script, what stands there instead, and what goes wrong then."""

from __future__ import annotations

from typing import NamedTuple


class Mistake(NamedTuple):
    """`old` stands exactly once in `lua/<script>`."""

    script: str
    old: str
    new: str
    why: str


MISTAKES = (
    Mistake(
        "include/end_grant.lua",
        "if label then redis.call('ZREM', key_asked(label), slot) end",
        "",
        "a grant that ended still counts against the cap of its label",
    ),
    Mistake(
        "include/end_grant.lua",
        "  redis.call('ZREM', key_deadlines, slot)\n",
        "",
        "a grant that ended leaves its deadline behind",
    ),
    Mistake(
        "include/end_grant.lua",
        "    redis.call('HINCRBY', key_duty(part), 'version', 1)\n",
        "",
        "a node does not hear that a grant of its slot ended",
    ),
    Mistake(
        "include/end_grant.lua",
        "key_borrow_ttl(slot), key_borrow_idle(slot), key_browser_run(slot)",
        "key_borrow_ttl(slot), key_browser_run(slot)",
        "a grant that ended leaves its idle clock behind",
    ),
    Mistake(
        "include/drop_slot.lua",
        "if place ~= 'free' then return place == 'held' end",
        "if place == 'held' then return true end",
        "placeholder",
    ),
    Mistake(
        "capacity/borrow.lua",
        "  if live >= cap then return {'capped', live} end",
        "  if live > cap then return {'capped', live} end",
        "one grant more than the cap allows",
    ),
    Mistake(
        "capacity/borrow.lua",
        "if withdrawn == 'undone' then return {'undone'} end",
        "",
        "an attempt that was withdrawn before it arrived is granted",
    ),
    Mistake(
        "capacity/borrow.lua",
        "if held[1] ~= token then return {'over', slot} end",
        "if not held[1] then return {'over', slot} end",
        "a repeat gets the grant that somebody else holds by now",
    ),
    Mistake(
        "capacity/undo.lua",
        "if last ~= attempt or redis.call",
        "if redis.call",
        "a hub undoes the grant that its caller has fetched elsewhere",
    ),
    Mistake(
        "capacity/undo.lua",
        "or redis.call('HGET', key_session(slot), 'leaseToken') ~= token",
        "",
        "an undo ends a later grant",
    ),
    Mistake(
        "capacity/give_back.lua",
        "if token ~= '' and session[1] ~= token then",
        "if token ~= '' and session[1] and session[1] > token then",
        "placeholder 2",
    ),
    Mistake(
        "capacity/lapse.lua",
        "if deadline <= clock_ms then",
        "if deadline < clock_ms - 1000 then",
        "a lease that is over is left alone",
    ),
    Mistake(
        "capacity/renew.lua",
        "or deadline <= clock_ms then",
        "then",
        "a lease that is over is renewed",
    ),
    Mistake(
        "capacity/renew.lua",
        "math.max(deadline, math.min(clock_ms + ttl_ms, latest))",
        "math.min(clock_ms + ttl_ms, latest)",
        "a renewal shortens a lease",
    ),
    Mistake(
        "include/place_free.lua",
        "if redis.call('HGET', key_duty(part), 'drain') then",
        "if false then",
        "a slot that comes back to a draining node is offered",
    ),
    Mistake(
        "include/remove_node.lua",
        "if record[3] == 'lent' then\n      end_grant(slot, record[4], record[5], part)",
        "if record[3] == 'lent' then",
        "grants outlive their node",
    ),
    Mistake(
        "include/take.lua",
        "if under_maintenance(pool) then return nil end",
        "",
        "slots are lent under maintenance",
    ),
    Mistake(
        "include/match.lua",
        "for n = #want, trailing == '1' and 2 or #want, -1 do",
        "for n = #want, trailing == '1' and 3 or #want, -1 do",
        "a label never falls back to two segments",
    ),
    Mistake(
        "capacity/publish.lua",
        "    redis.call('DEL', key_recycle(slot))\n",
        "",
        "a slot just published is to be replaced",
    ),
    Mistake(
        "nodes/drain.lua",
        "  elseif on == '0' and place == 'held' then",
        "  elseif on == '0' and place == 'nowhere' then",
        "slots stay held back when a drain is over",
    ),
)

"""Mistakes that let late messages take effect; the machine of messages in flight looks for them."""

from __future__ import annotations

from tests.mutants.mistakes import Mistake

FLIGHT = (
    Mistake(
        "capacity/note_renewed.lua", "if hearing and left_ms > 0 then", "if false then",
        "a renewal is lost with the last second of Redis",
    ),
    Mistake(
        "capacity/note_ended.lua", "  if record and record.place == 'lent' then release(slot, record, 120, 'grant.returned', '') end\n", "",
        "what another hub brought back stays lent although it was returned",
    ),
    Mistake(
        "tasks/move.lua", "if claim ~= '' and claim ~= t.claim then return {'conflict', t.status} end\n", "",
        "a report ends a later attempt than the one it is about",
    ),
    Mistake(
        "include/speaker.lua", "  return redis.call('LPOS', key_incarnations(part), incarnation) and 'superseded' or 'unknown'\n", "  return 'own'\n",
        "the process before ends what its successor lends",
    ),
    Mistake(
        "store/open.lua", "'settle_ms', clock_ms + settle_ms", "'settle_ms', clock_ms",
        "slots are lent before hubs have said what they lent",
    ),
    Mistake(
        "tasks/recall.lua", "await_task(id, status, error, claim, request, worker)\n", "",
        "the end of a task is forgotten when its hub speaks before the one that knows of the submit",
    ),
    Mistake(
        "tasks/claim.lua", "if settle_left_ms > 0 then return {'settling', math.ceil(settle_left_ms)} end  -- a hub may have yet to say what ended\n", "",
        "a task is given out again whose end a hub has yet to say",
    ),
    Mistake(
        "include/place_free.lua", "if redis.call('HGET', key_duty(part), 'drain') or believed_in(slot) then", "if redis.call('HGET', key_duty(part), 'drain') then",
        "a slot is lent to the next while its last holder has yet to hear of it",
    ),
    Mistake(
        "include/revoke.lua", "  redis.call('PUBLISH', key_revoked_bell(slot), token)\n", "",
        "who listens is not told that his grant is over",
    ),
    Mistake(
        "capacity/still_held.lua", "  local word = held == token and 'ok' or held and 'stale token' or 'not lent'\n", "  local word = 'ok'\n",
        "who listens is told that he holds what was taken from him",
    ),
)  # fmt: skip

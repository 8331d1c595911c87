-- Let an operator hold a slot, or end such a hold, also of a slot that its node has withdrawn. Calls are numbered: one that a hub brings
-- back after a loss changes nothing when an equal or later one is known, and waits for a slot that is not published yet. Safe to repeat.
-- Returns {'ok', number of the call} | {'unknown'} (no such slot) | {'kept'} (an equal or later call is known)
command.finish('capacity/hold', {
  'slot',
  'reason',  -- '' to end the hold
  'number',  -- number of a call that is brought back; '' for a new call
}, function(a)
  local part = redis.call('HGET', keys.slot(a.slot), 'part')
  if not part then
    if a.number ~= '' then kept_holds.keep(a.slot, a.number, a.reason) end
    local held = a.number == '' and a.reason == '' and redis.call('HGET', keys.kept_holds(a.slot), 'barred')
    if not held or held == '' then return {'unknown'} end
    a.number = lease_texts.next_token()
    kept_holds.keep(a.slot, a.number, '')
    return {'ok', a.number}
  end
  if a.number == '' then a.number = lease_texts.next_token() end
  local again, counts = holds.call(a.slot, part, a.number, a.reason)
  if again then placing.place_anew(a.slot) end
  serving.opened()
  return {counts and 'ok' or 'kept', a.number}
end)

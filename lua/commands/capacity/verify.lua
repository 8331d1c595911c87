-- Check whether a token is that of the lease of a slot now; changes nothing.
-- Returns {'ok', ms left} | {'not lent'} | {'stale token'} (there is another lease) | {'lapsed'} (its deadline has passed)
--   | {'settling'} (the store was lost, and the lease or its end may not have been reported yet)
command.read('capacity/verify', {
  'slot',
  'token',
}, function(a)
  local held = redis.call('HGET', keys.session(a.slot), 'leaseToken')
  local unsure = held == a.token and store.settle_left_ms > 0
  if unsure or (held ~= a.token and reports.is_missing(a.slot, a.token, held)) then return {'settling'} end
  if not held then return {'not lent'} end
  if held ~= a.token then return {'stale token'} end
  local left_ms = tonumber(redis.call('ZSCORE', keys.deadlines, a.slot) or '0') - store.clock_ms
  if left_ms <= 0 then return {'lapsed'} end
  return {'ok', math.floor(left_ms)}
end)

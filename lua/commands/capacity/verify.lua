-- Is this token the one of the lease that holds the slot now? Changes nothing.
-- Returns {'ok', ms left} | {'not lent'} | {'stale token'} | {'lapsed'}
--   | {'settling'} (the store was lost: a hub may have yet to say that it ended, or its node that it is lent)
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

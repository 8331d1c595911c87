-- Extend a lease to ttl_ms from now, but not beyond max_ms from when it was lent, and never shorten it. Safe to repeat.
-- Returns {'ok', token, ms left} | {'over'} (there is no such lease, there is a later one, or its deadline has passed)
--   | {'settling'} (the store was lost, and hubs or nodes may yet report the lease or its end; a lease that the store knows is extended
--   all the same)
command.finish('capacity/renew', {
  'slot',
  'token',           -- '' when the caller has none
  'ttl_ms: number',
  'max_ms: number',  -- longest time from when it was lent
}, function(a)
  local held = redis.call('HGET', keys.session(a.slot), 'leaseToken')
  if held ~= a.token and reports.is_missing(a.slot, a.token, held) then return {'settling'} end
  local deadline = tonumber(redis.call('ZSCORE', keys.deadlines, a.slot) or '0')
  if held and deadline <= store.clock_ms and store.settle_left_ms > 0 then return {'settling'} end
  if not held or (a.token ~= '' and held ~= a.token) or deadline <= store.clock_ms then return {'over'} end
  local record = redis.call('HMGET', keys.slot(a.slot), 'granted_ms', 'watch_idle')
  local latest = tonumber(record[1] or store.clock_ms) + a.max_ms
  deadline = math.max(deadline, math.min(store.clock_ms + a.ttl_ms, latest))
  local left_ms = math.floor(deadline - store.clock_ms)
  renewals.extend(a.slot, left_ms, record[2])
  if store.settle_left_ms > 0 then return {'settling'} end
  return {'ok', held, left_ms}
end)

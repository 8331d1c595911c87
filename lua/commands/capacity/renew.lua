-- Extend a lease to ttl_ms from now, but not beyond max_ms from when it was lent, nor the longest hold of its pool, and never shorten it.
-- Safe to repeat.
-- Returns {'ok', token, ms left} | {'not-holder', holder, since when} (another caller's: nothing was done)
--   | {'over'} (there is no such lease, there is a later one, or its deadline has passed)
--   | {'settling'} (the store was lost, and hubs or nodes may yet report the lease or its end; a lease that the store knows is extended
--   all the same)
command.finish('capacity/renew', {
  'slot',
  'token',           -- '' when the caller has none
  'ttl_ms: number',  -- negative: unless the rule of its pool says otherwise
  'max_ms: number',  -- longest time from when it was lent
  'by',              -- who calls, as `holders.is_foreign` says
}, function(a)
  local held, deadline = renewals.held(a.slot, a.token, a.by)
  if not held then return deadline end
  local record = redis.call('HMGET', keys.slot(a.slot), 'granted_ms', 'watch_idle', 'active_ms', 'hold_ms', 'spared_ms', 'pool')
  local granted = tonumber(record[1] or store.clock_ms)
  local latest = lease_limits.latest({granted_ms = granted, hold_ms = tonumber(record[4] or ''), spared_ms = tonumber(record[5] or '')},
    granted + a.max_ms)
  local ttl_ms = pool_rules.length_ms(pool_rules.of(record[6] or ''), a.ttl_ms)
  deadline = math.max(deadline, math.min(store.clock_ms + ttl_ms, latest))
  local left_ms = math.floor(deadline - store.clock_ms)
  renewals.extend(a.slot, left_ms, record[2], record[3])
  if store.settle_left_ms > 0 then return {'settling'} end
  return {'ok', held, left_ms}
end)

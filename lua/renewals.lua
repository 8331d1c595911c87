-- Renewals: how a lease is extended.
local renewals = {}

-- Let a lease last `left_ms` from now. `watch_idle` is the field of its slot with the idle time of the lease in ms.
function renewals.extend(slot, left_ms, watch_idle)
  redis.call('ZADD', keys.deadlines, store.clock_ms + left_ms, slot)
  redis.call('SET', keys.borrow_ttl(slot), '1', 'PX', left_ms)
  redis.call('HSET', keys.slot(slot), 'visible_ms', store.now_ms + left_ms)
  local idle_ms = tonumber(watch_idle or '0')
  if idle_ms > 0 then redis.call('SET', keys.borrow_idle(slot), '1', 'PX', math.max(idle_ms, left_ms)) end
end

return renewals

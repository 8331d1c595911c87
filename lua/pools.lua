-- Pools: the index of labels with free slots, and maintenance.
local pools = {}

-- Add a label to the index of labels with free slots, of which there is one per number of segments. Returns whether it is new there.
function pools.open(label)
  local _, colons = string.gsub(label, ':', '')
  return redis.call('ZADD', keys.open_pools(colons + 1), 0, label) == 1
end

-- Take a label out of the index of labels with free slots.
function pools.close(label)
  local _, colons = string.gsub(label, ':', '')
  redis.call('ZREM', keys.open_pools(colons + 1), label)
end

-- Return whether a pool is under maintenance, during which it lends nothing, and end a maintenance that is over: when nothing is lent
-- and, after 10 s, each slot of the start has been replaced and there are as many; or after 2 min, as soon as nothing is lent. The flag
-- lives 30 min; what is left of that tells how long the maintenance has lasted.
function pools.under_maintenance(pool)
  local left_ms = redis.call('PTTL', keys.maintenance(pool))
  if left_ms == -2 then return false end
  local on_ms = keys.seconds.maintenance * 1000 - left_ms
  if redis.call('EXISTS', keys.inuse(pool)) == 1 or (left_ms > 0 and on_ms < 10000) then return true end
  local target = tonumber(redis.call('GET', keys.maintenance_target(pool)) or '0')
  local replaced = redis.call('LLEN', keys.available(pool)) >= target
    and redis.call('SINTERCARD', 2, keys.pool_slots(pool), keys.replacing(pool), 'LIMIT', 1) == 0
  if left_ms > 0 and on_ms < 120000 and not replaced then return true end
  redis.call('DEL', keys.maintenance(pool), keys.maintenance_target(pool), keys.maintenance_since(pool),
    keys.maintenance_free(pool), keys.maintenance_lent(pool), keys.replacing(pool))
  history.note('pool.maintenance', 'pool', pool, 'why', 'over')
  call_state.reopened[#call_state.reopened + 1] = pool
  return false
end

return pools

-- Checks and repairs of pools: the indexes of their labels, and waiters while a slot is free.
local doctor_pools = {}

-- Check the indexes of a pool. `segments` is the number of segments of the index of open pools in which its label was found.
function doctor_pools.check(say, _, label, segments)
  local _, colons = string.gsub(label, ':', '')
  local published = redis.call('EXISTS', keys.pool_slots(label)) == 1
  local free = redis.call('EXISTS', keys.available(label)) == 1
  local known = redis.call('ZSCORE', keys.pools, label)
  local open = redis.call('ZSCORE', keys.open_pools(segments), label)
  local elsewhere = tonumber(segments) ~= colons + 1
  say('pool unknown', published and not known)
  say('pool left', known and not published)
  say('not open', not elsewhere and free and published and not open)
  say('open left', open and (elsewhere or not (free or published)))
end

-- Put a label into the indexes of pools in which it belongs, and take it out of the others.
function doctor_pools.repair(label, segments)
  if redis.call('EXISTS', keys.pool_slots(label)) == 1 then
    redis.call('ZADD', keys.pools, 0, label)
  else
    redis.call('ZREM', keys.pools, label)
  end
  redis.call('ZREM', keys.open_pools(segments), label)
  if redis.call('EXISTS', keys.available(label)) == 1 then pools.open(label) else pools.close(label) end
end

-- Return whether one of the first 20 free items of a pool can be lent.
local function has_lendable(pool)
  for _, item in ipairs(redis.call('LRANGE', keys.available(pool), 0, 19)) do
    local record = redis.call('HMGET', keys.slot(items.glance(item) or ''), 'item', 'node', 'reported', 'part')
    if record[1] == item and not suspects.is_suspect(record[2], record[4], record[3]) then return true end
  end
end

-- Return whether the hub of the first ticket in the queue of a label ticks.
local function is_attended(label)
  local hub = redis.call('HGET', keys.ticket(redis.call('ZRANGE', keys.queue(label), 0, 0)[1] or ''), 'hub')
  return hub and not hubs.is_silent(hub, hubs.SILENT_MS)
end

-- Note 'waited for' for a pool that has a slot to lend while a ticket waits that may have it.
function doctor_pools.check_waiters(say, _, pool)
  if store.settle_left_ms > 0 or redis.call('EXISTS', keys.maintenance(pool)) == 1 then return end
  local label = waiters.next_label(pool)
  say('waited for', label and not caps.reached(label) and is_attended(label) and has_lendable(pool))
end

return doctor_pools

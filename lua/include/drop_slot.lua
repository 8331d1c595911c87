-- @include pool
-- @include offers_changed
-- Forget a slot whose item is in no list any more: record, memberships, what its node was to be told.
local function drop_slot(slot, pool, part)
  redis.call('DEL', key_slot(slot))
  if redis.call('SREM', key_node_slots(part), slot) == 1 then offers_changed(part) end
  redis.call('HDEL', key_duty(part), 'recycle:' .. slot)
  redis.call('SREM', key_aside(part), slot)
  if redis.call('EXISTS', key_node(part), key_node_slots(part)) == 0 then
    redis.call('DEL', key_duty(part))  -- of a node that never registered; nobody else would delete it
  end
  if redis.call('SREM', key_pool_slots(pool), slot) == 1 and redis.call('EXISTS', key_pool_slots(pool)) == 0 then
    redis.call('ZREM', key_pools, pool)
    if redis.call('EXISTS', key_available(pool)) == 0 then close_pool(pool) end
  end
end

-- Take a slot's item out of the list its record names. Returns whether it was there.
local function unlist(slot, pool, item, place)
  if place == 'lent' then return redis.call('LREM', key_inuse(pool), '1', item) == 1 end
  if place ~= 'free' then return place == 'held' end
  local found = redis.call('LREM', key_available(pool), '1', item) == 1
  if redis.call('EXISTS', key_available(pool)) == 0 then close_pool(pool) end
  return found
end

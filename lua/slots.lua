-- Slots: their records and memberships.
local slots = {}

-- Ask the node to replace a slot; it hears of it with its next beat, or finds the marker itself.
function slots.mark_recycle(slot, part, seconds)
  redis.call('SET', keys.recycle(slot), '1', 'EX', seconds)
  if part then redis.call('HSET', keys.orders(part), 'recycle:' .. slot, '1') end
end

-- Forget a slot whose item is in no list any more: record, memberships, what its node was to be told.
function slots.drop(slot, pool, part)
  redis.call('DEL', keys.slot(slot))
  if redis.call('SREM', keys.node_slots(part), slot) == 1 then slot_digests.changed(part) end
  redis.call('HDEL', keys.orders(part), 'recycle:' .. slot)
  redis.call('SREM', keys.aside(part), slot)
  if redis.call('EXISTS', keys.node(part), keys.node_slots(part)) == 0 then
    redis.call('DEL', keys.orders(part))  -- of a node that never registered; nothing else would delete it
  end
  if redis.call('SREM', keys.pool_slots(pool), slot) == 1 and redis.call('EXISTS', keys.pool_slots(pool)) == 0 then
    redis.call('ZREM', keys.pools, pool)
    if redis.call('EXISTS', keys.available(pool)) == 0 then pools.close(pool) end
  end
end

-- Take a slot's item out of the list its record names. Returns whether it was there.
function slots.unlist(pool, item, place)
  if place == 'lent' then return redis.call('LREM', keys.inuse(pool), '1', item) == 1 end
  if place ~= 'free' then return place == 'held' end
  local found = redis.call('LREM', keys.available(pool), '1', item) == 1
  if redis.call('EXISTS', keys.available(pool)) == 0 then pools.close(pool) end
  return found
end

-- The record and the memberships of a slot the hub did not know; the caller puts it into a list.
function slots.create(slot, item, pool, node, part, idle_ms, policy)
  redis.call('HSET', keys.slot(slot), 'item', item, 'pool', pool, 'node', node, 'part', part, 'idle_ms', idle_ms,
    'policy', policy)
  if redis.call('SADD', keys.node_slots(part), slot) == 1 then slot_digests.changed(part) end
  if redis.call('SADD', keys.pool_slots(pool), slot) == 1 then redis.call('ZADD', keys.pools, 0, pool) end
end

-- Is the item of a record still in the list the record names? Walks that list; only for records that are in doubt.
function slots.still_listed(pool, item, place)
  if place == 'held' then return true end
  return redis.call('LPOS', place == 'free' and keys.available(pool) or keys.inuse(pool), item) and true or false
end

-- Keep a slot, and what is lent of it, under the key part of its node's id where it stands under another one.
function slots.rehome(record)
  local old, part, slot = record.part, ids.key_part(record.node or ''), record.slot
  if old == part then return end
  local token = redis.call('HGET', keys.lent(old), slot)
  redis.call('SREM', keys.node_slots(old), slot)
  redis.call('SREM', keys.aside(old), slot)
  redis.call('HDEL', keys.lent(old), slot)
  redis.call('HDEL', keys.orders(old), 'recycle:' .. slot)
  redis.call('SADD', keys.node_slots(part), slot)
  if token then redis.call('HSET', keys.lent(part), slot, token) end
  if redis.call('EXISTS', keys.node(old), keys.node_slots(old)) == 0 then redis.call('DEL', keys.orders(old)) end
  redis.call('HSET', keys.slot(slot), 'part', part)
  orders.changed(part)
  record.part = part
end

-- The record of a slot, as a table; item is nil when the hub has none.
function slots.read(slot)
  local r = redis.call('HMGET', keys.slot(slot), 'item', 'pool', 'node', 'part', 'place', 'label', 'run', 'policy',
    'unreported', 'before', 'unseen', 'claimed')
  return {slot = slot, item = r[1], pool = r[2], node = r[3], part = r[4], place = r[5], label = r[6], run = r[7],
    policy = r[8], unreported = r[9], before = r[10], unseen = r[11],
    claimed = r[12]}
end

return slots

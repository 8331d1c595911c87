-- Slots: their records, and the indexes of the slots of nodes and pools.
local slots = {}

-- Ask the node of a slot to replace it, with a marker that lasts `seconds`. The node is told with its next heartbeat, or finds the
-- marker itself.
function slots.mark_recycle(slot, part, seconds)
  redis.call('SET', keys.recycle(slot), '1', 'EX', seconds)
  if part then redis.call('HSET', keys.orders(part), 'recycle:' .. slot, '1') end
end

-- Forget a slot whose item is in no list any more: its record, its places in indexes, and what its node was to be told of it.
function slots.drop(slot, pool, part)
  if store.freshens then freshness.drop(slot) end
  redis.call('DEL', keys.slot(slot))
  if redis.call('SREM', keys.node_slots(part), slot) == 1 then slot_digests.changed(part) end
  redis.call('HDEL', keys.orders(part), 'recycle:' .. slot, 'end:' .. slot)
  redis.call('SREM', keys.aside(part), slot)
  if redis.call('EXISTS', keys.node(part), keys.node_slots(part)) == 0 then
    redis.call('DEL', keys.orders(part))  -- the orders of a node that never registered: nothing else would delete them
  end
  if redis.call('SREM', keys.pool_slots(pool), slot) == 1 and redis.call('EXISTS', keys.pool_slots(pool)) == 0 then
    redis.call('ZREM', keys.pools, pool)
    if redis.call('EXISTS', keys.available(pool)) == 0 then pools.close(pool) end
  end
end

-- Take the item of a slot out of the list that its record names. Returns whether it was there; true for a held slot, which is in no
-- list.
function slots.unlist(pool, item, place)
  if place == 'lent' then return redis.call('LREM', keys.inuse(pool), '1', item) == 1 end
  if place ~= 'free' then return place == 'held' end
  local found = redis.call('LREM', keys.available(pool), '1', item) == 1
  if redis.call('EXISTS', keys.available(pool)) == 0 then pools.close(pool) end
  return found
end

-- Make the record of a slot that the hub did not know, and add it to the indexes; the caller puts its item into a list.
function slots.create(slot, item, pool, node, part, idle_ms, policy)
  redis.call('HSET', keys.slot(slot), 'item', item, 'pool', pool, 'node', node, 'part', part, 'idle_ms', idle_ms,
    'policy', policy)
  if redis.call('SADD', keys.node_slots(part), slot) == 1 then slot_digests.changed(part) end
  if redis.call('SADD', keys.pool_slots(pool), slot) == 1 then redis.call('ZADD', keys.pools, 0, pool) end
end

-- Return whether the item is still in the list that the record names. This searches the whole list: use it only for records in doubt.
function slots.still_listed(pool, item, place)
  if place == 'held' then return true end
  return redis.call('LPOS', place == 'free' and keys.available(pool) or keys.inuse(pool), item) and true or false
end

-- Move a slot and its lease to the key part of its node's id, where its record has another one.
function slots.rehome(record)
  local old, part, slot = record.part, ids.key_part(record.node or ''), record.slot
  if old == part then return end
  local token = redis.call('HGET', keys.lent(old), slot)
  redis.call('SREM', keys.node_slots(old), slot)
  redis.call('SREM', keys.aside(old), slot)
  redis.call('HDEL', keys.lent(old), slot)
  local owed = redis.call('HGET', keys.orders(old), 'end:' .. slot)
  redis.call('HDEL', keys.orders(old), 'recycle:' .. slot, 'end:' .. slot)
  redis.call('SADD', keys.node_slots(part), slot)
  if token then redis.call('HSET', keys.lent(part), slot, token) end
  if owed then redis.call('HSET', keys.orders(part), 'end:' .. slot, owed) end
  if redis.call('EXISTS', keys.node(old), keys.node_slots(old)) == 0 then redis.call('DEL', keys.orders(old)) end
  redis.call('HSET', keys.slot(slot), 'part', part)
  orders.changed(part)
  record.part = part
end

-- Return the record of a slot as a table; `item` is false when the hub has no record.
function slots.read(slot)
  local r = redis.call('HMGET', keys.slot(slot), 'item', 'pool', 'node', 'part', 'place', 'label', 'run', 'policy',
    'unreported', 'before', 'unseen', 'claimed')
  return {slot = slot, item = r[1], pool = r[2], node = r[3], part = r[4], place = r[5], label = r[6], run = r[7],
    policy = r[8], unreported = r[9], before = r[10], unseen = r[11],
    claimed = r[12]}
end

return slots

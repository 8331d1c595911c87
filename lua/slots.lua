-- Slots: their records, and the indexes of the slots of nodes and pools.
local slots = {}

-- Ask the node of a slot to replace it, by a marker that lasts `seconds`; it is told with its next heartbeat, or finds the marker.
function slots.mark_recycle(slot, part, seconds)
  redis.call('SET', keys.recycle(slot), '1', 'EX', seconds)
  if part then redis.call('HSET', keys.orders(part), 'recycle:' .. slot, '1') end
end

-- Forget a slot whose item is in no list any more: its record, its places in indexes, and what its node was to be told of it.
function slots.drop(slot, pool, part)
  if store.matching then slot_classes.drop(slot, pool) end
  if store.freshens then freshness.drop(slot) end
  if store.holds then kept_holds.drop(slot, part) end
  if store.bundles then reserved_slots.drop(slot) end
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

-- Take the item of a slot out of the list that its record names. Returns whether it was there; true for a held slot, in no list.
function slots.unlist(pool, item, place)
  if place == 'lent' then return redis.call('LREM', keys.inuse(pool), '1', item) == 1 end
  if place ~= 'free' then return place == 'held' end
  local found = free_slots.remove(pool, store.matching and items.glance(item) or '', item)
  if store.matching then classes.taken(items.glance(item) or '', pool) end
  if redis.call('EXISTS', keys.available(pool)) == 0 then pools.close(pool) end
  return found
end

-- Make the record of a slot that the hub did not know, and add it to the indexes; the caller puts its item into a list.
function slots.create(slot, item, pool, node, part, idle_ms, policy)
  redis.call('HSET', keys.slot(slot), 'item', item, 'pool', pool, 'node', node, 'part', part, 'idle_ms', idle_ms,
    'policy', policy)
  if redis.call('SADD', keys.node_slots(part), slot) == 1 then slot_digests.changed(part) end
  if redis.call('SADD', keys.pool_slots(pool), slot) == 1 then redis.call('ZADD', keys.pools, 0, pool) end
  if store.holds then kept_holds.enter(slot, part) end
end

-- Return whether the item is still in the list that the record names. This searches the whole list: use it only for records in doubt.
function slots.still_listed(pool, item, place)
  return place == 'held' or redis.call('LPOS', place == 'free' and keys.available(pool) or keys.inuse(pool), item) and true or false
end

-- Move a slot and its lease to the key part of its node's id, where its record has another one.
function slots.rehome(record)
  local old, part, slot = record.part, ids.key_part(record.node or ''), record.slot
  if old == part then return end
  local token, owed = redis.call('HGET', keys.lent(old), slot), redis.call('HGET', keys.orders(old), 'end:' .. slot)
  for _, key in ipairs({keys.node_slots(old), keys.aside(old)}) do redis.call('SREM', key, slot) end
  redis.call('HDEL', keys.lent(old), slot)
  redis.call('HDEL', keys.orders(old), 'recycle:' .. slot, 'end:' .. slot)
  redis.call('SADD', keys.node_slots(part), slot)
  if token then redis.call('HSET', keys.lent(part), slot, token) end
  if owed then redis.call('HSET', keys.orders(part), 'end:' .. slot, owed) end
  if redis.call('EXISTS', keys.node(old), keys.node_slots(old)) == 0 then redis.call('DEL', keys.orders(old)) end
  redis.call('HSET', keys.slot(slot), 'part', part)
  if store.holds then holds.index(slot, part, old) end
  orders.changed(part)
  record.part = part
end

-- Return the record of a slot as a table; `item` is false when the hub has no record.
function slots.read(slot)
  local r = redis.call('HMGET', keys.slot(slot), 'item', 'pool', 'node', 'part', 'place', 'label', 'run', 'policy',
    'unreported', 'before', 'unseen', 'claimed', 'holder', 'limited', 'began', 'active_ms', 'team', 'user')
  return {slot = slot, item = r[1], pool = r[2], node = r[3], part = r[4], place = r[5], label = r[6], run = r[7], policy = r[8],
    unreported = r[9], before = r[10], unseen = r[11], claimed = r[12], holder = r[13], limited = r[14], began = r[15], active_ms = r[16],
    team = r[17], user = r[18]}
end

return slots

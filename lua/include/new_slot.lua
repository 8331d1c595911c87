-- @include offers_changed
-- The record and the memberships of a slot the hub did not know; the caller puts it into a list.
local function new_slot(slot, item, pool, node, part, idle_ms, policy)
  redis.call('HSET', key_slot(slot), 'item', item, 'pool', pool, 'node', node, 'part', part, 'idle_ms', idle_ms,
    'policy', policy)
  if redis.call('SADD', key_node_slots(part), slot) == 1 then offers_changed(part) end
  if redis.call('SADD', key_pool_slots(pool), slot) == 1 then redis.call('ZADD', key_pools, 0, pool) end
end

-- @include key_part
-- Keep a slot, and what is lent of it, under the key part of its node's id where it stands under another one.
local function rehome(record)
  local old, part, slot = record.part, key_part(record.node or ''), record.slot
  if old == part then return end
  local token = redis.call('HGET', key_lent(old), slot)
  redis.call('SREM', key_node_slots(old), slot)
  redis.call('SREM', key_aside(old), slot)
  redis.call('HDEL', key_lent(old), slot)
  redis.call('HDEL', key_duty(old), 'recycle:' .. slot)
  redis.call('SADD', key_node_slots(part), slot)
  if token then redis.call('HSET', key_lent(part), slot, token) end
  if redis.call('EXISTS', key_node(old), key_node_slots(old)) == 0 then redis.call('DEL', key_duty(old)) end
  redis.call('HSET', key_slot(slot), 'part', part)
  redis.call('HINCRBY', key_duty(part), 'version', 1)
  record.part = part
end

-- A node says that it has dealt with recycle markers: it replaced or reset these slots. Safe to repeat.
-- Returns {'ok'}
local part = ARGV[1]
-- @rest slots
for i = 2, #ARGV do
  local slot = ARGV[i]
  local pool = redis.call('HGET', key_slot(slot), 'pool')
  redis.call('DEL', key_recycle(slot))
  redis.call('HDEL', key_duty(part), 'recycle:' .. slot)
  if pool then redis.call('SREM', key_replacing(pool), slot) end
end
return {'ok'}

-- A node says that it has dealt with recycle markers: it replaced or reset these slots. Others' are left alone. Safe to repeat.
-- Returns {'ok'}
local part = ARGV[1]
-- @rest slots
-- @include store
for i = 2, #ARGV do
  local slot = ARGV[i]
  local record = redis.call('HMGET', key_slot(slot), 'pool', 'part')
  if record[2] == part then
    redis.call('DEL', key_recycle(slot))
    redis.call('SREM', key_replacing(record[1]), slot)
  end
  redis.call('HDEL', key_duty(part), 'recycle:' .. slot)
end
return {'ok'}

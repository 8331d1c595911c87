-- Ask the nodes of these slots to replace them. One that is held back is in no list, so the end of a maintenance does
-- not wait for it. Safe to repeat. Returns {'ok', slots marked}
-- @rest slots
-- @include end_grant
local marked = 0
for i = 1, #ARGV do
  local part, pool, place = unpack(redis.call('HMGET', key_slot(ARGV[i]), 'part', 'pool', 'place'))
  if part then
    mark_recycle(ARGV[i], part, 120)
    redis.call('HINCRBY', key_duty(part), 'version', 1)
    marked = marked + 1
  end
  if place == 'held' then redis.call('SREM', key_replacing(pool), ARGV[i]) end
end
return {'ok', marked}

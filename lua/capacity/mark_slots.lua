-- Ask the nodes of these slots to replace them. Safe to repeat. Returns {'ok', slots marked}
-- @rest slots
-- @include end_grant
local marked = 0
for i = 1, #ARGV do
  local part = redis.call('HGET', key_slot(ARGV[i]), 'part')
  if part then
    mark_recycle(ARGV[i], part, 120)
    redis.call('HINCRBY', key_duty(part), 'version', 1)
    marked = marked + 1
  end
end
return {'ok', marked}

-- Look at some nodes whose slots are held back because they were suspect: those that are no longer, because they beat by
-- writing their alive key or have had their time to report, are lent from again. Safe to repeat. Returns {'ok'}
-- @include store
-- @include resume
-- @include serve
-- @include key_part
for _, node in ipairs(redis.call('SRANDMEMBER', key_suspects, 20)) do
  local part = key_part(node)
  if redis.call('EXISTS', key_aside(part)) == 0 then
    redis.call('SREM', key_suspects, node)
    redis.call('HDEL', key_duty(part), 'suspect')
  elseif not suspect(node, part, opened[1]) and not reporting then
    resume(node, part)
  end
end
serve_opened()
return {'ok'}

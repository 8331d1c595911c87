-- The node is told anew what is offered of it, with its next beat.
local function offers_changed(part)
  if redis.call('HDEL', key_duty(part), 'offers') == 1 then redis.call('HINCRBY', key_duty(part), 'version', 1) end
end

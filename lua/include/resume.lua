-- @include place_free
-- A node that was suspect is heard again: its slots that were held back are on offer, 256 in one script; those of a
-- draining node stay held back.
local left_to_resume = 256
local function resume(node, part)
  local drains = redis.call('HEXISTS', key_duty(part), 'drain') == 1
  local slots = redis.call('SPOP', key_aside(part), left_to_resume)
  left_to_resume = left_to_resume - #slots
  for _, slot in ipairs(slots) do
    local record = redis.call('HMGET', key_slot(slot), 'item', 'pool', 'place')
    if record[3] == 'held' and not drains then place_free(slot, part, record[2], record[1]) end
  end
  if redis.call('EXISTS', key_aside(part)) == 1 then return end
  redis.call('SREM', key_suspects, node)
  if redis.call('HDEL', key_duty(part), 'suspect') == 1 then note('node.back', 'node', node) end
end

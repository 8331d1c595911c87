-- @include place_free
-- A node that was suspect is heard again: its slots that were held back are on offer, 256 in one script, of which those
-- that go to a waiter count eight times; those of a draining node stay held back.
local left_to_resume = 256
local function resume(node, part)
  local drains = redis.call('HEXISTS', key_duty(part), 'drain') == 1
  while left_to_resume > 0 do
    local slot = redis.call('SPOP', key_aside(part))
    if not slot then break end
    local record = redis.call('HMGET', key_slot(slot), 'item', 'pool', 'place')
    local place = record[3] == 'held' and not drains and place_free(slot, part, record[2], record[1])
    left_to_resume = left_to_resume - (place == 'lent' and 8 or 1)
    if place == 'held' and redis.call('SISMEMBER', key_aside(part), slot) == 1 then break end  -- it is not reported yet
  end
  if redis.call('EXISTS', key_aside(part)) == 1 then return end
  redis.call('SREM', key_suspects, node)
  if redis.call('HDEL', key_duty(part), 'suspect') == 1 then note('node.back', 'node', node) end
end

-- @include store
-- A node that has been silent for half its timeout, on the hub clock, is lent from no more until it beats again.
-- Nodes that never beat through a hub are judged by the sweeper alone.
local function suspect(node)
  local timeout_ms = tonumber(opened[6] or '')
  local reading = timeout_ms and redis.call('ZSCORE', key_beats, node)
  return reading and clock_ms - tonumber(reading) > timeout_ms / 2
end

-- Hold back a slot that is in no list because its node is suspect; the node's next beat puts it back.
local function hold_aside(slot, part)
  redis.call('HSET', key_slot(slot), 'place', 'held')
  redis.call('SADD', key_aside(part), slot)
  redis.call('HSET', key_duty(part), 'suspect', '1')
end

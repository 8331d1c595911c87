-- Look whether a node can be shut down without anybody noticing: it drains, so that nothing of it can be lent any more,
-- and nothing of it is lent. Up to `limit` slots are seen in one look; of a node with more, what is held back stays so
-- while the same drain lasts, so that the bites of one drain are as good as one look. Changes nothing.
-- Returns {'ok', number of its drain or '', ms to the deadline or -1, slots lent, slots on offer in this bite,
--   cursor of the next bite or '0'} | {'unknown'} (not registered, and nothing is known to be of it)
--   | {'settling', ms} (the same, but the store was lost, and so long the node may come back with what it holds)
local id         = ARGV[1]
local part       = ARGV[2]
local timeout_ms = tonumber(ARGV[3])   -- of nodes
local cursor     = ARGV[4]             -- '0' to begin with
local limit      = ARGV[5]
-- @include store
local lent, offered, after = redis.call('HLEN', key_lent(part)), 0, '0'
local drain = redis.call('HGET', key_duty(part), 'drain') or ''
if redis.call('SISMEMBER', key_nodes, id) == 0 and redis.call('EXISTS', key_lent(part), key_node_slots(part)) == 0 then
  local left_ms = opened[4] and settle_left_ms + timeout_ms or 0
  if left_ms > 0 then return {'settling', math.ceil(left_ms)} end
  return {'unknown'}
end
if drain ~= '' and lent == 0 then
  local page = redis.call('SSCAN', key_node_slots(part), cursor, 'COUNT', limit)
  after = page[1]
  for _, slot in ipairs(page[2]) do
    local place = redis.call('HGET', key_slot(slot), 'place')
    lent = lent + (place == 'lent' and 1 or 0)  -- by another program, without a session
    offered = offered + (place == 'free' and 1 or 0)
  end
end
local due = redis.call('ZSCORE', key_drain_deadlines, id)
return {'ok', drain, due and math.max(0, math.floor(tonumber(due) - clock_ms)) or -1, lent, offered, after}

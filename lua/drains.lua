-- Drains: which nodes lend nothing more, and the last drain call of each node, which hubs and the node bring back after a loss. A drain
-- call is {'1' drain | '0' undrain, its number, ms to the deadline or '', reason of the cordon or ''}.
local drains = {}

-- Return whether slots of a node are held back, by a drain or a cordon.
function drains.holds_back(part) return redis.call('HEXISTS', keys.orders(part), 'drain') == 1 end

-- Return why a node is cordoned; nil while it is not. A cordon is a drain that ends no lease: it has no deadline, and the node is not
-- told to drain.
function drains.cordoned(part) return redis.call('HGET', keys.orders(part), 'cordon') or nil end

-- Return the ms on the hub clock until the leases of a draining node are ended; -1 without a deadline.
function drains.left_ms(id)
  local due = redis.call('ZSCORE', keys.drain_deadlines, id)
  return due and math.max(0, math.floor(tonumber(due) - store.clock_ms)) or -1
end

-- Return the last drain call for a node; {} where there was none.
function drains.last_call(id, part)
  local said = redis.call('HMGET', keys.orders(part), 'drain', 'drain_number', 'cordon')
  if not said[2] then return {} end
  local left_ms = said[1] and drains.left_ms(id) or -1
  return {said[1] and '1' or '0', said[2], left_ms >= 0 and left_ms or '', said[3] or ''}
end

-- Keep a drain call, which a hub brings back after a loss, for a node that has not registered again yet.
function drains.keep(part, on, number, left_ms, reason)
  local key = keys.drain_call(part)
  if not numbers.above(number, redis.call('HGET', key, 'number') or '') then return end
  redis.call('HSET', key, 'on', on, 'number', number, 'left_ms', left_ms, 'reason', reason)
  redis.call('EXPIRE', key, keys.seconds.drain_call)
end

-- Return the drain call that was kept for a node, and delete it; {} where there is none.
function drains.kept(part)
  local key = keys.drain_call(part)
  local said = redis.call('HMGET', key, 'on', 'number', 'left_ms', 'reason')
  if not said[1] then return {} end
  redis.call('DEL', key)
  said[4] = said[4] or ''
  return said
end

return drains

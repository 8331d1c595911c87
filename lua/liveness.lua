-- Whether nodes are alive. A node is alive by its alive key, by its field LastSeen, or by its heartbeats through a hub.
local liveness = {}

-- Return a word and the field LastSeen as it is written: 'alive' (the alive key of the node exists) | 'ahead' (LastSeen is in the
-- future) | 'fresh' (LastSeen by the time of Redis, or its heartbeat through a hub by the hub clock, is within the timeout) | 'stale'.
function liveness.of(id, part, timeout_ms)
  local seen = redis.call('HGET', keys.node(part), 'LastSeen') or ''
  if redis.call('EXISTS', keys.node_alive(part)) == 1 then return 'alive', seen end
  local last_ms = times.parse(seen)
  if last_ms and last_ms > store.now_ms then return 'ahead', seen end
  if last_ms and store.now_ms - last_ms <= timeout_ms then return 'fresh', seen end
  local reading = redis.call('ZSCORE', keys.beats, id)
  if reading and store.clock_ms - tonumber(reading) <= timeout_ms then return 'fresh', seen end
  return 'stale', seen
end

-- Note signs of life of a node that did not come through a hub: the node may write its alive key, for 90 s each time, and LastSeen. The
-- heartbeat of the node is set to the time at which it wrote them last, as far as that can be told. The alive key that a sweep writes,
-- for 30 s, is no sign of life.
function liveness.note_signs(id, part, word, seen, timeout_ms)
  local last_ms = times.parse(seen)
  local silent_ms = last_ms and math.max(0, store.now_ms - last_ms) or math.huge
  local left_ms = word == 'alive' and redis.call('PTTL', keys.node_alive(part)) or 0
  if word ~= 'alive' or silent_ms <= timeout_ms or left_ms > 31000 then redis.call('HDEL', keys.orders(part), 'kept') end
  if left_ms <= 0 then return end
  if left_ms > 31000 then silent_ms = math.min(silent_ms, math.max(0, 90000 - left_ms)) end
  silent_ms = math.max(silent_ms, timeout_ms - left_ms)
  if silent_ms < math.huge then redis.call('ZADD', keys.beats, 'XX', 'GT', math.floor(store.clock_ms - silent_ms), id) end
end

return liveness

-- Whether nodes are alive.
local liveness = {}

-- Is a node alive? By its alive key; then by LastSeen against the time of the store; then, for nodes that beat through
-- a hub, by the hub clock, which stands still while no hub can hear. Returns the word and LastSeen as it is written:
-- 'alive' | 'fresh' (no alive key, not stale) | 'ahead' (LastSeen in the future) | 'stale'
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

-- Note the signs that a node lives which no hub has heard of late: it writes its alive key itself, for 90 s each time, and
-- LastSeen. Its reading is when it last did, as far as that can be told, so that a key that is cut short is noticed. The key
-- that a sweep writes, for 30 s, is no sign of life.
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

-- @include parse_time
-- Is a node alive? By its alive key; then by LastSeen against the time of the store; then, for nodes that beat through
-- a hub, by the hub clock, which stands still while no hub can hear. Returns the word and LastSeen as it is written:
-- 'alive' | 'fresh' (no alive key, not stale) | 'ahead' (LastSeen in the future) | 'stale'
local function liveness(id, part, timeout_ms)
  local seen = redis.call('HGET', key_node(part), 'LastSeen') or ''
  if redis.call('EXISTS', key_node_alive(part)) == 1 then return 'alive', seen end
  local last_ms = parse_time(seen)
  if last_ms and last_ms > now_ms then return 'ahead', seen end
  if last_ms and now_ms - last_ms <= timeout_ms then return 'fresh', seen end
  local reading = redis.call('ZSCORE', key_beats, id)
  if reading and clock_ms - tonumber(reading) <= timeout_ms then return 'fresh', seen end
  return 'stale', seen
end

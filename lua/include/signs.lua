-- What shows that a node lives which no hub has heard of late: it writes its alive key itself, for 90 s each time, and
-- LastSeen. Its reading is when it last did, as far as that can be told, so that a key that is cut short is noticed; what a
-- sweep wrote, for 30 s, is no sign of it.
local function note_signs(id, part, word, seen, timeout_ms)
  local last_ms = parse_time(seen)
  local silent_ms = last_ms and math.max(0, now_ms - last_ms) or math.huge
  local left_ms = word == 'alive' and redis.call('PTTL', key_node_alive(part)) or 0
  if word ~= 'alive' or silent_ms <= timeout_ms or left_ms > 31000 then redis.call('HDEL', key_duty(part), 'kept') end
  if left_ms <= 0 then return end
  if left_ms > 31000 then silent_ms = math.min(silent_ms, math.max(0, 90000 - left_ms)) end
  silent_ms = math.max(silent_ms, timeout_ms - left_ms)
  if silent_ms < math.huge then redis.call('ZADD', key_beats, 'XX', 'GT', math.floor(clock_ms - silent_ms), id) end
end

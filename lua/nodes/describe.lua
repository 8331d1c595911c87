-- Look at nodes. Returns per node: {LastSeen, Capacity, Apps, Labels, BaseUrl, word of liveness, ms since the beat on
-- the hub clock or -1, draining 1 | 0, slots, lent, ms until the deadline of its drain or -1, 1 | 0 (only a sweep keeps it alive)}
--   | 0 (not registered)
local timeout_ms = tonumber(ARGV[1])
-- @rest nodes                       per node: raw id, id as part of a key
-- @include store
-- @include liveness
local answers = {}
for i = 2, #ARGV, 2 do
  local id, part = ARGV[i], ARGV[i + 1]
  if redis.call('SISMEMBER', key_nodes, id) == 0 then
    answers[#answers + 1] = 0
  else
    local said = redis.call('HMGET', key_node(part), 'LastSeen', 'Capacity', 'Apps', 'Labels', 'BaseUrl')
    local reading = redis.call('ZSCORE', key_beats, id)
    local due = redis.call('ZSCORE', key_drain_deadlines, id)
    local word = liveness(id, part, timeout_ms)
    local seen_ms = parse_time(said[1] or '') or 0
    local kept = word == 'alive' and now_ms - seen_ms > timeout_ms and redis.call('HEXISTS', key_duty(part), 'kept') == 1
    answers[#answers + 1] = {said[1] or '', said[2] or '', said[3] or '', said[4] or '', said[5] or '',
      word, reading and math.max(0, clock_ms - tonumber(reading)) or -1,
      redis.call('HEXISTS', key_duty(part), 'drain'), redis.call('SCARD', key_node_slots(part)),
      redis.call('HLEN', key_lent(part)), due and math.max(0, math.floor(tonumber(due) - clock_ms)) or -1, kept and 1 or 0}
  end
end
return answers

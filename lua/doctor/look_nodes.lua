-- Look at registered nodes: whether one is dead and still on the books, and whether its drain is known everywhere.
-- Changes nothing. Returns per node a list of words; hub/doctor/words.py says what each means.
local timeout_ms = tonumber(ARGV[1])
local grace_ms   = tonumber(ARGV[2])   -- how long a node may be dead before a sweep must have expired it
-- @rest nodes                       per node: raw id, id as part of a key
-- @include store
-- @include liveness
local answers = {}
for i = 3, #ARGV, 2 do
  local id, part, words = ARGV[i], ARGV[i + 1], {}
  if redis.call('SISMEMBER', key_nodes, id) == 1 then
    local word, seen = liveness(id, part, timeout_ms)
    local reading = redis.call('ZSCORE', key_beats, id)
    local silent_ms = reading and clock_ms - tonumber(reading) or now_ms - (parse_time(seen) or 0)
    if word == 'stale' and silent_ms > timeout_ms + grace_ms then words[#words + 1] = 'dead' end
    local marked = redis.call('HEXISTS', key_duty(part), 'drain') == 1
    local listed = redis.call('SISMEMBER', key_draining, id) == 1
    if marked and not listed then words[#words + 1] = 'drain unlisted' end
    if listed and not marked then words[#words + 1] = 'drain unmarked' end
    if redis.call('ZSCORE', key_drain_deadlines, id) and not marked then words[#words + 1] = 'deadline left' end
  end
  answers[#answers + 1] = words
end
return answers

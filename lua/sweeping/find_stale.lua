-- What the nodes are that may be stale; nothing changes. Returns per node: a word of liveness | 'gone' (not registered)
--   | 'suspect' (not stale yet, and silent for half the timeout)
local timeout_ms = tonumber(ARGV[1])
-- @rest nodes                       per node: raw id, id as part of a key
-- @include store
-- @include liveness
-- As in `suspect`: one that writes its alive key itself, for 90 s each time, is not silent.
local function silent(id, part)
  local silent_ms = clock_ms - tonumber(redis.call('ZSCORE', key_beats, id) or clock_ms)
  return silent_ms > timeout_ms / 2
    and redis.call('PTTL', key_node_alive(part)) <= math.max(math.max(timeout_ms, 90000) - silent_ms, 30000) + 1000
end
local words = {}
for i = 2, #ARGV, 2 do
  local known = redis.call('SISMEMBER', key_nodes, ARGV[i]) == 1
  local word = known and liveness(ARGV[i], ARGV[i + 1], timeout_ms) or 'gone'
  words[#words + 1] = (word == 'alive' or word == 'fresh') and silent(ARGV[i], ARGV[i + 1]) and 'suspect' or word
end
return words

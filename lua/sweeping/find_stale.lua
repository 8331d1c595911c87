-- What the nodes are that may be stale; nothing changes. Returns per node: a word of liveness | 'gone' (not registered)
local timeout_ms = tonumber(ARGV[1])
-- @rest nodes                       per node: raw id, id as part of a key
-- @include store
-- @include liveness
local words = {}
for i = 2, #ARGV, 2 do
  local known = redis.call('SISMEMBER', key_nodes, ARGV[i]) == 1
  words[#words + 1] = known and (liveness(ARGV[i], ARGV[i + 1], timeout_ms)) or 'gone'
end
return words

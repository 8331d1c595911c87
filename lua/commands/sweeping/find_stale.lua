-- Check the liveness of nodes that may be stale; changes nothing. Like in suspects.lua, a node that writes its alive key itself, for 90
-- s each time, is not silent. Returns per node: a word of `liveness.of` | 'gone' (not registered) | 'suspect' (not stale yet, but
-- silent for half the timeout)
command.read('sweeping/find_stale', {
  'timeout_ms: number',  -- timeout of nodes
  '...nodes',            -- per node: raw id, key part of the id
}, function(a, argv)
  local function silent(id, part)
    local silent_ms = store.clock_ms - tonumber(redis.call('ZSCORE', keys.beats, id) or store.clock_ms)
    return silent_ms > a.timeout_ms / 2
      and redis.call('PTTL', keys.node_alive(part)) <= math.max(math.max(a.timeout_ms, 90000) - silent_ms, 30000) + 1000
  end
  local words = {}
  for i = 2, #argv, 2 do
    local known = redis.call('SISMEMBER', keys.nodes, argv[i]) == 1
    local word = known and liveness.of(argv[i], argv[i + 1], a.timeout_ms) or 'gone'
    words[#words + 1] = (word == 'alive' or word == 'fresh') and silent(argv[i], argv[i + 1]) and 'suspect' or word
  end
  return words
end)

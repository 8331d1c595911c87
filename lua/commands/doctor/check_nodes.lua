-- Check at registered nodes: whether one is dead and still on the books, and whether its drain is known everywhere.
-- Changes nothing. Returns per node a list of words; hub/doctor/words.py says what each means.
command.read('doctor/check_nodes', {
  'timeout_ms: number',
  'grace_ms: number',    -- how long a node may be dead before a sweep must have expired it
  '...nodes',            -- per node: raw id, id as part of a key
}, function(a, argv)
  local answers = {}
  for i = 3, #argv, 2 do
    local id, part, words = argv[i], argv[i + 1], {}
    if redis.call('SISMEMBER', keys.nodes, id) == 1 then
      local word, seen = liveness.of(id, part, a.timeout_ms)
      local reading = redis.call('ZSCORE', keys.beats, id)
      local silent_ms = reading and store.clock_ms - tonumber(reading) or store.now_ms - (times.parse(seen) or 0)
      if word == 'stale' and silent_ms > a.timeout_ms + a.grace_ms then words[#words + 1] = 'dead' end
      local marked = drains.holds_back(part)
      local listed = redis.call('SISMEMBER', keys.draining, id) == 1
      if marked and not listed then words[#words + 1] = 'drain unlisted' end
      if listed and not marked then words[#words + 1] = 'drain unmarked' end
      if redis.call('ZSCORE', keys.drain_deadlines, id) and not marked then words[#words + 1] = 'deadline left' end
    end
    answers[#answers + 1] = words
  end
  return answers
end)

-- Read nodes; changes nothing. Returns per node {LastSeen, Capacity, Apps, Labels, BaseUrl, word of `liveness.of`, ms since its
-- heartbeat on the hub clock or -1, 1 | 0 (drain or cordon), slots, leases, ms until the deadline of its drain or -1, 1 | 0 (only a
-- sweep keeps it alive), reason of its cordon or '', slots that are held as unwell}
--   | 0 (not registered, or its record cannot be read)
command.read('nodes/describe', {
  'timeout_ms: number',  -- timeout of nodes
  '...nodes',            -- per node: raw id, key part of the id
}, function(a, argv)
  local answers = {}
  local function held(part)
    local seen, count = {}, 0
    for _, name in ipairs(store.holds and redis.call('HKEYS', keys.node_holds(part)) or {}) do
      local slot = string.match(name, '^%l+:(.*)')
      if slot and not seen[slot] then seen[slot], count = true, count + 1 end
    end
    return count
  end
  local function look(id, part)
    if redis.call('SISMEMBER', keys.nodes, id) == 0 then return 0 end
    local said = redis.call('HMGET', keys.node(part), 'LastSeen', 'Capacity', 'Apps', 'Labels', 'BaseUrl')
    local reading = redis.call('ZSCORE', keys.beats, id)
    local word = liveness.of(id, part, a.timeout_ms)
    local seen_ms = times.parse(said[1] or '') or 0
    local kept = word == 'alive' and store.now_ms - seen_ms > a.timeout_ms and redis.call('HEXISTS', keys.orders(part), 'kept') == 1
    return {said[1] or '', said[2] or '', said[3] or '', said[4] or '', said[5] or '',
      word, reading and math.max(0, store.clock_ms - tonumber(reading)) or -1,
      drains.holds_back(part) and 1 or 0, redis.call('SCARD', keys.node_slots(part)),
      redis.call('HLEN', keys.lent(part)), drains.left_ms(id), kept and 1 or 0,
      drains.cordoned(part) or '', held(part)}
  end
  for i = 2, #argv, 2 do answers[#answers + 1] = lenient.look(0, look, argv[i], argv[i + 1]) end
  return answers
end)

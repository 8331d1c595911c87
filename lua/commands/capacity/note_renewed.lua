-- Take from a hub, after the store was lost, which leases it renewed shortly before. A lease that the store knows is extended to the
-- deadline that its holder was told; another one gets that deadline when its hub or its node reports it. Safe to repeat. Returns {'ok'}
command.finish('capacity/note_renewed', {
  '...renewed',  -- per lease: slot, token, deadline on the hub clock in ms
}, function(_, argv)
  for i = 1, #argv, 3 do
    local slot, token, deadline = argv[i], argv[i + 1], tonumber(argv[i + 2])
    local left_ms = math.floor(deadline - store.clock_ms)
    if store.hearing and left_ms > 0 then
      redis.call('HSET', keys.renewed, slot, token .. '|' .. string.format('%d', deadline))
      local known = redis.call('HGET', keys.session(slot), 'leaseToken') == token
      if known and tonumber(redis.call('ZSCORE', keys.deadlines, slot) or '0') < deadline then
        redis.call('ZADD', keys.deadlines, deadline, slot)
        redis.call('SET', keys.borrow_ttl(slot), '1', 'PX', left_ms)
        redis.call('HSET', keys.slot(slot), 'visible_ms', store.now_ms + left_ms)
      end
    end
  end
  return {'ok'}
end)

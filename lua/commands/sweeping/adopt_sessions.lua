-- Make leases of sessions that another program wrote: what is left of their footprint becomes their deadline. A session without a
-- footprint is over, and capacity/lapse ends it; one without a label is deleted.
-- Returns per slot: 'known' (it has a deadline) | 'adopted' | 'over' (without a footprint) | 'stray' (without a label) | 'gone' (no
--   session)
command.finish('sweeping/adopt_sessions', {
  'ttl_ms: number',  -- how long a lease lasts whose footprint has no expiry
  '...slots',
}, function(a, argv)
  local words = {}
  for i = 2, #argv do
    local slot = argv[i]
    local session = redis.call('HMGET', keys.session(slot), 'labelKey', 'runId', 'leaseToken', 'nodeId')
    local word
    if redis.call('ZSCORE', keys.deadlines, slot) then
      word = 'known'
    elseif redis.call('EXISTS', keys.session(slot)) == 0 then
      word = 'gone'
    elseif not session[1] or session[1] == '' then
      redis.call('DEL', keys.session(slot))
      word = 'stray'
    else
      local left_ms = redis.call('PTTL', keys.borrow_ttl(slot))
      if left_ms == -1 then left_ms = a.ttl_ms end
      word = left_ms > 0 and 'adopted' or 'over'
      redis.call('ZADD', keys.deadlines, store.clock_ms + math.max(0, left_ms), slot)
      redis.call('ZADD', keys.in_flight(session[1]), store.now_ms, slot)
      if session[2] and session[2] ~= '' then redis.call('ZADD', keys.run(session[2]), store.now_ms, slot) end
      history.slot('grant.adopted', {slot = slot, node = session[4], label = session[1], run = session[2]}, 'foreign')
      local part = redis.call('HGET', keys.slot(slot), 'part')
      if part then
        redis.call('HSET', keys.slot(slot), 'place', 'lent', 'label', session[1], 'run', session[2] or '', 'granted_ms',
          store.clock_ms, 'visible_ms', store.now_ms + left_ms, 'watch_idle', 0)
        redis.call('HSET', keys.lent(part), slot, session[3] or '')
        team_shares.count(slot, redis.call('HGET', keys.slot(slot), 'pool') or '', '')
        served_caps.count(slot, redis.call('HGET', keys.slot(slot), 'pool') or '')
      end
    end
    words[#words + 1] = word
  end
  return words
end)

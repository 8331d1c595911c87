-- Check nominated leases, and end those that are over. Safe to repeat; a lease that was renewed or returned meanwhile is left alone.
-- The deadline on the hub clock decides. A footprint that vanished before its time was deleted on purpose, which ends the lease; one
-- that ran out while the hub clock stood still is written again. While the store settles no lease ends by its deadline: hubs have yet
-- to say what they renewed.
-- A live lease gets the limits of the present rule of its pool.
-- Returns per slot: 'live' | 'lapsed' (its deadline passed) | 'max-hold' | 'recall' (it passed with that) | 'deleted' (its footprint was)
--   | 'idle' (the footprint of its idle rule was deleted) | 'rewritten' (live, with a new footprint) | 'stray' (a session without a label,
--   which is deleted)
command.finish('capacity/lapse', {
  '...slots',
}, function(_, argv)
  local words = {}
  local function over(slot, label)
    if not label then return 'stray' end
    local deadline = tonumber(redis.call('ZSCORE', keys.deadlines, slot) or '0')
    if deadline <= store.clock_ms then
      local at, why = lease_limits.ending(lease_limits.read(slot))
      if store.settle_left_ms > 0 then return 'live' end
      return at and at <= store.clock_ms and (why == 'recall' and why or 'max-hold') or 'lapsed'
    end
    local lease = redis.call('HMGET', keys.slot(slot), 'visible_ms', 'watch_idle', 'idle_visible_ms', 'active_ms', 'limited', 'pool')
    if redis.call('EXISTS', keys.borrow_ttl(slot)) == 0 then
      if store.now_ms < tonumber(lease[1] or '0') then return 'deleted' end
      local left_ms = math.max(1, math.floor(deadline - store.clock_ms))
      redis.call('SET', keys.borrow_ttl(slot), '1', 'PX', left_ms)
      redis.call('HSET', keys.slot(slot), 'visible_ms', store.now_ms + left_ms)
      return 'rewritten'
    end
    local idle_ms = tonumber(lease[2] or '0')
    if idle_ms > 0 and redis.call('EXISTS', keys.borrow_idle(slot)) == 0 then
      if store.now_ms < tonumber(lease[3] or 'inf') then return 'idle' end
      if not lease[4] then lease_use.keep_footprint(slot, idle_ms) end  -- its holder tells of no use: it counts as busy
    end
    if lease[5] or pool_rules.of(lease[6] or '') then lease_use.refresh(slot) end
    return 'live'
  end
  for i = 1, #argv do
    local slot = argv[i]
    local label = redis.call('HGET', keys.session(slot), 'labelKey')
    local word = over(slot, label)
    if word ~= 'live' and word ~= 'rewritten' then
      local record = slots.read(slot)
      if record.place == 'lent' then
        -- A holder knows its deadline itself. After any other end it is told, without a grace: a program that deletes a
        -- footprint wants the slot back with the next sweep, and an idle slot is used by no client.
        local by_rule = word == 'max-hold' or word == 'recall'
        if word ~= 'lapsed' and not by_rule then revocations.revoke(slot, 0, word) end
        releases.release(slot, record, '120', by_rule and 'grant.ended' or 'grant.lapsed', word)
      else
        record.label, record.run = label or record.label, redis.call('HGET', keys.session(slot), 'runId') or record.run
        if redis.call('EXISTS', keys.session(slot)) == 1 then
          usage.note_end(record)
          bundles.leave({slot = slot, holder = redis.call('HGET', keys.session(slot), 'holder')})
          history.slot('grant.lapsed', record, word)
        end
        endings.finish(slot, record.label, record.run, record.part, nil, record.limited)
      end
    end
    words[i] = word
  end
  serving.opened()
  return words
end)

-- Put right what the record, the session and the indexes of a slot say about each other; where it is listed is left to
-- mend_place. A lease without a session ends: nobody could prove that it is his. Safe to repeat. Returns {'ok'}
command.change('doctor/repair_slot', {
  'slot',
}, function(a)
  local function end_every_trace(record, session)
    local traces = redis.call('EXISTS', keys.session(a.slot), keys.borrow_ttl(a.slot), keys.borrow_idle(a.slot)) > 0
      or redis.call('ZSCORE', keys.deadlines, a.slot) or redis.call('HEXISTS', keys.lent(record.part), a.slot) == 1
      or record.label or redis.call('HEXISTS', keys.slot(a.slot), 'granted_ms') == 1
    if not traces then return end
    endings.finish(a.slot, session[1], session[2], record.part)
    endings.finish(a.slot, record.label, record.run, record.part)
    redis.call('HDEL', keys.slot(a.slot), 'label', 'run', 'granted_ms', 'visible_ms', 'watch_idle')
  end

  local function complete_grant(record, session)
    redis.call('HSET', keys.slot(a.slot), 'label', session[1], 'run', session[2] or '')
    redis.call('HSET', keys.session(a.slot), 'poolLabel', record.pool)
    redis.call('ZADD', keys.in_flight(session[1]), 'NX', store.now_ms, a.slot)
    if session[2] and session[2] ~= '' then redis.call('ZADD', keys.run(session[2]), 'NX', store.now_ms, a.slot) end
    if redis.call('HGET', keys.lent(record.part), a.slot) ~= (session[3] or '') then
      redis.call('HSET', keys.lent(record.part), a.slot, session[3] or '')
      redis.call('HINCRBY', keys.orders(record.part), 'version', 1)
    end
    if redis.call('ZSCORE', keys.deadlines, a.slot) then return end
    -- What other programs see of the lease is what is left to go by.
    local visible_ms = tonumber(redis.call('HGET', keys.slot(a.slot), 'visible_ms') or '0')
    local left_ms = math.max(redis.call('PTTL', keys.borrow_ttl(a.slot)), visible_ms - store.now_ms, 1)
    redis.call('ZADD', keys.deadlines, store.clock_ms + left_ms, a.slot)
  end

  local record = slots.read(a.slot)
  if record.item and record.pool and record.part then slots.rehome(record) end
  local session = redis.call('HMGET', keys.session(a.slot), 'labelKey', 'runId', 'leaseToken')
  if not session[1] and redis.call('EXISTS', keys.session(a.slot)) == 0 and record.place ~= 'lent' then
    redis.call('DEL', keys.borrow_ttl(a.slot), keys.borrow_idle(a.slot))
  end
  if record.item and record.pool and record.part then
    if redis.call('SADD', keys.node_slots(record.part), a.slot) == 1 then offers.changed(record.part) end
    if redis.call('SADD', keys.pool_slots(record.pool), a.slot) == 1 then redis.call('ZADD', keys.pools, 0, record.pool) end
    local draining = drains.holds_back(record.part)
    local granted = redis.call('HEXISTS', keys.slot(a.slot), 'granted_ms') == 1
    local taken_in = session[1] and redis.call('ZSCORE', keys.deadlines, a.slot)
    if record.place == 'lent' and (granted or taken_in) then
      if session[1] then complete_grant(record, session) else releases.release(a.slot, record, '120', 'grant.ended', 'doctor') end
    elseif record.place ~= 'lent' then
      end_every_trace(record, session)
      local aside = redis.call('SISMEMBER', keys.aside(record.part), a.slot) == 1
      local revoked = redis.call('ZSCORE', keys.revoked, a.slot)
      if record.place == 'held' and not draining and not aside and not revoked then
        placing.place(a.slot, record.part, record.pool, record.item)
      elseif record.place == 'free' and draining and slots.unlist(record.pool, record.item, 'free') then
        redis.call('HSET', keys.slot(a.slot), 'place', 'held')
      end
    end
  elseif redis.call('EXISTS', keys.slot(a.slot)) == 1 then
    slots.drop(a.slot, record.pool or '', record.part or '')   -- a sweep makes it anew from the item
  elseif session[1] and redis.call('ZSCORE', keys.deadlines, a.slot) then
    redis.call('ZADD', keys.in_flight(session[1]), 'NX', store.now_ms, a.slot)
  end
  return {'ok'}
end)

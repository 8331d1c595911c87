-- Put right what the record, the session and the indexes of a slot say about each other; where it is listed is left to
-- mend_place. A grant without a session ends: nobody could prove that it is his. Safe to repeat. Returns {'ok'}
local slot = ARGV[1]
-- @include release
-- @include rehome
local function end_every_trace(record, session)
  local traces = redis.call('EXISTS', key_session(slot), key_borrow_ttl(slot), key_borrow_idle(slot)) > 0
    or redis.call('ZSCORE', key_deadlines, slot) or redis.call('HEXISTS', key_lent(record.part), slot) == 1
    or record.label or redis.call('HEXISTS', key_slot(slot), 'granted_ms') == 1
  if not traces then return end
  end_grant(slot, session[1], session[2], record.part)
  end_grant(slot, record.label, record.run, record.part)
  redis.call('HDEL', key_slot(slot), 'label', 'run', 'granted_ms', 'visible_ms', 'watch_idle')
end

local function complete_grant(record, session)
  redis.call('HSET', key_slot(slot), 'label', session[1], 'run', session[2] or '')
  redis.call('HSET', key_session(slot), 'poolLabel', record.pool)
  redis.call('ZADD', key_asked(session[1]), 'NX', now_ms, slot)
  if session[2] and session[2] ~= '' then redis.call('ZADD', key_run(session[2]), 'NX', now_ms, slot) end
  if redis.call('HGET', key_lent(record.part), slot) ~= (session[3] or '') then
    redis.call('HSET', key_lent(record.part), slot, session[3] or '')
    redis.call('HINCRBY', key_duty(record.part), 'version', 1)
  end
  if redis.call('ZSCORE', key_deadlines, slot) then return end
  -- What other programs see of the lease is what is left to go by.
  local visible_ms = tonumber(redis.call('HGET', key_slot(slot), 'visible_ms') or '0')
  local left_ms = math.max(redis.call('PTTL', key_borrow_ttl(slot)), visible_ms - now_ms, 1)
  redis.call('ZADD', key_deadlines, clock_ms + left_ms, slot)
end

local record = read_slot(slot)
if record.item and record.pool and record.part then rehome(record) end
local session = redis.call('HMGET', key_session(slot), 'labelKey', 'runId', 'leaseToken')
if not session[1] and redis.call('EXISTS', key_session(slot)) == 0 and record.place ~= 'lent' then
  redis.call('DEL', key_borrow_ttl(slot), key_borrow_idle(slot))
end
if record.item and record.pool and record.part then
  if redis.call('SADD', key_node_slots(record.part), slot) == 1 then offers_changed(record.part) end
  if redis.call('SADD', key_pool_slots(record.pool), slot) == 1 then redis.call('ZADD', key_pools, 0, record.pool) end
  local draining = redis.call('HEXISTS', key_duty(record.part), 'drain') == 1
  local granted = redis.call('HEXISTS', key_slot(slot), 'granted_ms') == 1
  local taken_in = session[1] and redis.call('ZSCORE', key_deadlines, slot)
  if record.place == 'lent' and (granted or taken_in) then
    if session[1] then complete_grant(record, session) else release(slot, record, 120, 'grant.ended', 'doctor') end
  elseif record.place ~= 'lent' then
    end_every_trace(record, session)
    local aside = redis.call('SISMEMBER', key_aside(record.part), slot) == 1
    local revoked = redis.call('ZSCORE', key_revoked, slot)
    if record.place == 'held' and not draining and not aside and not revoked then
      place_free(slot, record.part, record.pool, record.item)
    elseif record.place == 'free' and draining and unlist(slot, record.pool, record.item, 'free') then
      redis.call('HSET', key_slot(slot), 'place', 'held')
    end
  end
elseif redis.call('EXISTS', key_slot(slot)) == 1 then
  drop_slot(slot, record.pool or '', record.part or '')   -- a sweep makes it anew from the item
elseif session[1] and redis.call('ZSCORE', key_deadlines, slot) then
  redis.call('ZADD', key_asked(session[1]), 'NX', now_ms, slot)
end
return {'ok'}

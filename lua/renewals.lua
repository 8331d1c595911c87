-- Renewals: how a lease is extended.
local renewals = {}

-- Return the token and the deadline of the live lease of a slot that has this token ('' for any) and is not foreign to the caller `by`
-- (`holders.is_foreign`); else nil and the answer to the caller: {'over'} (there is no such lease, there is a later one, or its deadline
-- has passed) | {'settling'} (the store was lost, and the lease or its end may be reported yet) | that of `holders.refusal`.
function renewals.held(slot, token, by)
  local held, holder = unpack(redis.call('HMGET', keys.session(slot), 'leaseToken', 'holder'))
  if held ~= token and reports.is_missing(slot, token, held) then return nil, {'settling'} end
  local deadline = tonumber(redis.call('ZSCORE', keys.deadlines, slot) or '0')
  if held and deadline <= store.clock_ms and store.settle_left_ms > 0 then return nil, {'settling'} end
  if not held or (token ~= '' and held ~= token) or deadline <= store.clock_ms then return nil, {'over'} end
  if holders.is_foreign(by, holder, token ~= '') then return nil, holders.refusal(slot) end
  return held, deadline
end

-- Let a lease last `left_ms` from now. `watch_idle` is the field of its slot with the idle time of the lease in ms; `active_ms` is set
-- where its holder tells of its use: then a renewal is no use.
function renewals.extend(slot, left_ms, watch_idle, active_ms)
  redis.call('ZADD', keys.deadlines, store.clock_ms + left_ms, slot)
  redis.call('SET', keys.borrow_ttl(slot), '1', 'PX', left_ms)
  redis.call('HSET', keys.slot(slot), 'visible_ms', store.now_ms + left_ms)
  local idle_ms = tonumber(watch_idle or '0')
  if idle_ms > 0 and not active_ms then lease_use.keep_footprint(slot, math.max(idle_ms, left_ms)) end
end

-- Extend a lease, as capacity/renew says, and return its answer.
function renewals.renew(slot, token, ttl_ms, max_ms, by)
  local held, deadline = renewals.held(slot, token, by)
  if not held then return deadline end
  local record = redis.call('HMGET', keys.slot(slot), 'granted_ms', 'watch_idle', 'active_ms', 'hold_ms', 'spared_ms', 'pool', 'recall_ms')
  local granted = tonumber(record[1] or store.clock_ms)
  local latest = lease_limits.latest({granted_ms = granted, hold_ms = tonumber(record[4] or ''), spared_ms = tonumber(record[5] or ''),
    recall_ms = tonumber(record[7] or '')}, granted + max_ms)
  ttl_ms = pool_rules.length_ms(pool_rules.of(record[6] or ''), ttl_ms)
  deadline = math.max(deadline, math.min(store.clock_ms + ttl_ms, latest))
  local left_ms = math.floor(deadline - store.clock_ms)
  renewals.extend(slot, left_ms, record[2], record[3])
  if store.settle_left_ms > 0 then return {'settling'} end
  return {'ok', held, left_ms}
end

return renewals

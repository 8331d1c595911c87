-- Use of leases: what their holders tell of it, and the ends that follow from the limits of `lease_limits`.
local lease_use = {}

-- Write the public footprint of the idle rule, and until when it lasts: one that is gone before was deleted on purpose.
function lease_use.keep_footprint(slot, ms)
  redis.call('SET', keys.borrow_idle(slot), '1', 'PX', numbers.whole(ms))
  redis.call('HSET', keys.slot(slot), 'idle_visible_ms', numbers.whole(store.now_ms + ms))
end

-- Note that a slot is in use. With `pause_ms` it counts as used for so long, but not beyond `max_ms` from when it was lent, nor beyond the
-- longest hold; 0 ends a pause. Returns its limits.
function lease_use.note(slot, pause_ms, max_ms)
  local r = lease_limits.read(slot)
  r.active_ms = store.clock_ms
  redis.call('HSET', keys.slot(slot), 'limited', '1', 'active_ms', numbers.whole(store.clock_ms))
  if pause_ms then
    local latest = lease_limits.latest(r, (r.granted_ms or store.clock_ms) + max_ms)
    r.paused_ms = math.min(store.clock_ms + pause_ms, latest)
    redis.call('HSET', keys.slot(slot), 'paused_ms', numbers.whole(r.paused_ms))
  end
  if r.idle_ms > 0 then lease_use.keep_footprint(slot, math.max(r.idle_ms, (r.paused_ms or 0) - store.clock_ms)) end
  lease_limits.plan(r)
  return r
end

-- Return whether the footprint of the idle rule outlives the end of the idle time: the node of the slot extends it while a client of
-- another program is connected, which is use.
local function is_connected(r) return redis.call('PTTL', keys.borrow_idle(r.slot)) > 1000 end

-- Do what is due for a lease: tell its holder that it ends, or end it; at most one of the two. Returns 'warned' | 'max-hold' | 'idle' |
-- 'recall' (it has ended by that, and the grace of its holder in ms) | 'later' | 'none' (there is no such lease).
function lease_use.look(slot)
  local r = lease_limits.read(slot)
  local at, why = lease_limits.ending(r)
  if r.place ~= 'lent' or not r.limited or not at then
    redis.call('ZREM', keys.lease_limits, slot)
    return 'none'
  end
  if why == 'idle' and at <= store.clock_ms and is_connected(r) then
    lease_use.note(slot)
    return 'later'
  end
  if r.warned_ms ~= at then
    lease_limits.plan(r)
    if tonumber(redis.call('ZSCORE', keys.lease_limits, slot)) > store.clock_ms then return 'later' end
    lease_limits.warn(r, at, why)
    return 'warned'
  end
  if at > store.clock_ms then lease_limits.plan(r) return 'later' end
  -- A renewal does not go beyond the longest hold: a holder that believes in its lease for longer gets the grace.
  local believes = tonumber(redis.call('ZSCORE', keys.deadlines, slot) or '0') > store.clock_ms
  local grace_ms = believes and revocations.grace_ms() or 0
  revocations.revoke(slot, grace_ms, why)
  releases.release(slot, slots.read(slot), '120', why == 'idle' and 'grant.lapsed' or 'grant.ended', why)
  return why, grace_ms
end

-- Give a live lease the limits of the present rule of its pool, where they are others. It then ends no earlier than its holder can be told.
function lease_use.refresh(slot)
  local r = lease_limits.read(slot)
  local rule, base = pool_rules.of(r.pool), r.base_idle_ms or r.watch_idle or 0
  local idle = r.own_idle and base or rule and rule.idle or base
  local hold, warn = rule and rule.hold, rule and rule.warn
  local was = r.watch_idle or 0
  if r.hold_ms == hold and was == idle and r.warn_ms == warn then return end
  local stricter = hold and hold < (r.hold_ms or math.huge) or idle > 0 and (idle < was or was == 0)
  redis.call('HDEL', keys.slot(slot), 'hold_ms', 'warn_ms', 'base_idle_ms')
  local set = {'limited', '1', 'watch_idle', numbers.whole(idle)}
  local function put(name, ms) set[#set + 1], set[#set + 2] = name, numbers.whole(ms) end
  if hold then put('hold_ms', hold) end
  if warn then put('warn_ms', warn) end
  if idle ~= base then put('base_idle_ms', base) end
  if stricter then put('spared_ms', store.clock_ms + (warn or math.min(60000, math.floor(idle / 2)))) end
  redis.call('HSET', keys.slot(slot), unpack(set))
  local left_ms = r.active_ms and math.max(1000, math.min(idle, r.active_ms + idle - store.clock_ms)) or idle  -- the change is no use
  if idle == 0 then redis.call('DEL', keys.borrow_idle(slot)) elseif idle ~= was then lease_use.keep_footprint(slot, left_ms) end
  lease_limits.plan(lease_limits.read(slot))
end

return lease_use

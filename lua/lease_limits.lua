-- Lease limits: when leases end by the rules of their pools, and what their holders are told before. Fields of the record of a slot that
-- are set only while its lease has such limits: limited ('1'), hold_ms (longest hold), warn_ms (how long before an end its holder is
-- told), base_idle_ms (idle time without the rule), active_ms (when it was used last, as its holder says), paused_ms (until when it counts
-- as used), spared_ms (no end by rule comes earlier, as the rules have changed), recall_ms (until when it may be renewed, for another
-- team), warned_ms and ending (the end that was told, and its reason).
local lease_limits = {}

local FIELDS = {'hold_ms', 'warn_ms', 'base_idle_ms', 'active_ms', 'paused_ms', 'spared_ms', 'warned_ms', 'recall_ms', 'limited', 'ending'}
local NUMBERS = {'granted_ms', 'watch_idle', 'hold_ms', 'warn_ms', 'base_idle_ms', 'active_ms', 'paused_ms', 'spared_ms', 'warned_ms',
  'recall_ms'}

-- Return the limits of the lease of a slot; `own_idle` is whether the slot has an idle rule of its own.
function lease_limits.read(slot)
  local said = redis.call('HMGET', keys.slot(slot), 'place', 'pool', 'limited', 'idle_ms', unpack(NUMBERS))
  local r = {slot = slot, place = said[1], pool = said[2], limited = said[3]}
  for i, name in ipairs(NUMBERS) do r[name] = tonumber(said[i + 4] or '') end
  r.own_idle, r.idle_ms = said[4] and said[4] ~= '', tonumber(said[4] or '') == 0 and 0 or r.watch_idle or 0
  return r
end

-- Return when a lease ends, on the hub clock, and by what: 'max-hold' | 'idle' | 'recall'; nil where it does not. A lease whose holder has
-- never told of use counts as used.
function lease_limits.ending(r)
  local at, why
  if r.hold_ms and r.granted_ms then at, why = r.granted_ms + r.hold_ms, 'max-hold' end
  if r.idle_ms > 0 and r.active_ms then
    local idle_at = math.max(r.active_ms + r.idle_ms, r.paused_ms or 0)
    if not (at and at <= idle_at) then at, why = idle_at, 'idle' end
  end
  at = at and math.max(at, r.spared_ms or 0)
  if r.recall_ms and not (at and at < r.recall_ms) then at, why = r.recall_ms, 'recall' end
  return at, why
end

-- Return the latest deadline that a renewal may give a lease, `latest` or earlier.
function lease_limits.latest(r, latest)
  local hold = r.hold_ms and r.granted_ms and math.max(r.granted_ms + r.hold_ms, r.spared_ms or 0)
  return math.min(latest, r.recall_ms or latest, hold or latest)
end

-- Note when the lease is to be looked at next: when its holder is to be told of the end, then at the end.
function lease_limits.plan(r)
  local at = lease_limits.ending(r)
  if r.warned_ms and r.warned_ms ~= at then
    redis.call('HDEL', keys.slot(r.slot), 'warned_ms', 'ending')
    r.warned_ms = nil
    notifications.publish(keys.revoked_notice(r.slot), '')
  end
  if not at then return redis.call('ZREM', keys.lease_limits, r.slot) end
  redis.call('ZADD', keys.lease_limits, numbers.whole(r.warned_ms and at or at - (r.warn_ms or math.min(60000, r.idle_ms / 2))), r.slot)
end

-- Tell the holder of a lease that it ends in `left_ms`, and why: 'max-hold' | 'idle' | 'recall' | 'rule-change'.
function lease_limits.warn(r, at, why)
  local facts = redis.call('HMGET', keys.slot(r.slot), 'node', 'label', 'run', 'user', 'team')
  why = r.spared_ms == at and 'rule-change' or why
  redis.call('HSET', keys.slot(r.slot), 'warned_ms', numbers.whole(at), 'ending', why)
  r.warned_ms = at
  history.note('grant.ending', 'slot', r.slot, 'node', facts[1] or '', 'pool', r.pool, 'label', facts[2] or '', 'run', facts[3] or '',
    'user', facts[4] or '', 'team', facts[5] or '', 'why', why, 'ends_in_ms', math.max(0, math.floor(at - store.clock_ms)))
  notifications.publish(keys.revoked_notice(r.slot), '')
  lease_limits.plan(r)
end

-- Give a new lease the limits of the rule of its pool. `base_idle_ms`: its idle time without the rule, where the rule has another.
function lease_limits.begin(slot, rule, granted_ms, base_idle_ms)
  redis.call('HSET', keys.slot(slot), 'limited', '1', 'warn_ms', numbers.whole(rule.warn))
  if rule.hold then redis.call('HSET', keys.slot(slot), 'hold_ms', numbers.whole(rule.hold)) end
  if base_idle_ms then redis.call('HSET', keys.slot(slot), 'base_idle_ms', numbers.whole(base_idle_ms)) end
  lease_limits.plan({slot = slot, hold_ms = rule.hold, warn_ms = rule.warn, granted_ms = granted_ms, idle_ms = 0})
end

-- Forget the limits of a lease that has ended.
function lease_limits.forget(slot)
  redis.call('HDEL', keys.slot(slot), unpack(FIELDS))
  redis.call('ZREM', keys.lease_limits, slot)
end

return lease_limits

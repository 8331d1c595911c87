-- Checks of slots: contradictions between their records, their sessions, and the indexes that follow from both.
local doctor_slots = {}

-- Check a slot that a hub lent.
local function check_grant(say, slot, record, session)
  local label, run = record.label or '', record.run or ''
  say('no session', not session.label)
  say('no deadline', not session.deadline)
  say('label differs', session.label and session.label ~= label)
  say('pool differs', session.pool and session.pool ~= record.pool)
  say('token differs', session.label and redis.call('HGET', keys.lent(record.part), slot) ~= session.token)
  say('not counted', not redis.call('ZSCORE', keys.in_flight(label), slot) or served_caps.forgets(slot, record.pool))
  say('not of its bundle', session.label and doctor_bundles.misses(slot, session.token))
  say('not of its run', run ~= '' and not redis.call('ZSCORE', keys.run(run), slot))
  say('footprint gone', session.label and store.now_ms < tonumber(record.visible_ms or '0')
    and redis.call('EXISTS', keys.borrow_ttl(slot)) == 0)
end

-- Check that nothing of a lease is left of a slot that is not lent.
local function check_traces(say, slot, record, session)
  say('session left', session.exists)
  say('deadline left', session.deadline)
  say('footprint left', redis.call('EXISTS', keys.borrow_ttl(slot), keys.borrow_idle(slot)) > 0)
  say('lease left', record.label or record.granted_ms)
  say('token left', redis.call('HEXISTS', keys.lent(record.part), slot) == 1)
end

-- Return whether a slot is held back although its node does not drain.
function doctor_slots.is_set_aside(part, slot)
  return redis.call('SISMEMBER', keys.aside(part), slot) == 1 or redis.call('ZSCORE', keys.revoked, slot)
    or freshness.is_owed(slot) or holds.of(slot) or redis.call('SISMEMBER', keys.reserved, slot) == 1
end

-- Check a slot. A session or a lent item that another program wrote and that no sweep has taken in yet is no contradiction.
function doctor_slots.check(say, limits, slot)
  local r = redis.call('HMGET', keys.slot(slot), 'item', 'pool', 'part', 'place', 'label', 'run', 'granted_ms',
    'visible_ms', 'node', 'adopted_ms')
  local record = {item = r[1], pool = r[2], part = r[3], place = r[4], label = r[5], run = r[6], granted_ms = r[7],
    visible_ms = r[8], node = r[9], adopted_ms = r[10]}
  local s = redis.call('HMGET', keys.session(slot), 'labelKey', 'leaseToken', 'poolLabel')
  local session = {label = s[1], token = s[2], pool = s[3], exists = redis.call('EXISTS', keys.session(slot)) == 1,
    deadline = redis.call('ZSCORE', keys.deadlines, slot)}
  if redis.call('EXISTS', keys.slot(slot)) == 1 and not (record.item and record.pool and record.part) then
    say('record broken', true)
  elseif record.item then
    local draining = drains.holds_back(record.part)
    say('held for nothing', record.place == 'held' and not draining and not doctor_slots.is_set_aside(record.part, slot))
    say('offered while draining', record.place == 'free' and draining)
    say('offered unfresh', record.place == 'free' and freshness.is_owed(slot))
    say('offered unwell', record.place == 'free' and holds.of(slot))
    say('not of its node', redis.call('SISMEMBER', keys.node_slots(record.part), slot) == 0)
    say('not of its pool', redis.call('SISMEMBER', keys.pool_slots(record.pool), slot) == 0)
    say('part differs', record.part ~= ids.key_part(record.node or ''))
    say('node unknown', record.place ~= 'lent' and nodes.is_unknown(record, limits.timeout_ms))
    if record.place ~= 'lent' then
      check_traces(say, slot, record, session)
    elseif record.granted_ms then
      check_grant(say, slot, record, session)
    elseif session.label and session.deadline then
      say('label differs', session.label ~= record.label)
    end
  elseif session.label and session.deadline then
    say('not counted', not redis.call('ZSCORE', keys.in_flight(session.label), slot))
  end
  doctor_teams.check_lease(say, slot, record.place == 'lent' and record.granted_ms and session.label)
  doctor_task_slots.check_lease(say, slot, limits.grace_ms)
  say('token above', session.token and numbers.above(session.token, redis.call('HGET', keys.store, 'token') or '0'))
  say('overdue', session.exists and session.deadline and tonumber(session.deadline) + limits.grace_ms < store.clock_ms)
  say('footprint for ever', not session.exists and (redis.call('PTTL', keys.borrow_ttl(slot)) == -1
    or redis.call('PTTL', keys.borrow_idle(slot)) == -1))
end

return doctor_slots

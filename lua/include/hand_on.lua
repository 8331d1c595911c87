-- @include lend
-- @include ticket
-- @include history
-- Grant a slot that is in no list to a waiter and tell his hub. found: slot item pool node part own_idle_ms.
local function hand_on(t, found)
  step_out(t)
  grant_to(t, found)
  note('grant.handed', 'slot', found.slot, 'node', found.node, 'pool', found.pool, 'label', t.label, 'run', t.run,
    'ticket', t.id, 'ttl_ms', t.ttl_ms)
  if t.keyed then
    redis.call('HSET', key_ticket(t.id), 'handed', '1')  -- its place, should the grant have to be undone
    redis.call('EXPIRE', key_ticket(t.id), 60)
  else
    redis.call('DEL', key_ticket(t.id))
  end
  local pace = redis.call('HMGET', key_pace(t.label), 'mark_ms', 'gap_ms')
  local gap_ms = math.max(0, now_ms - tonumber(pace[1] or now_ms))
  if pace[2] then gap_ms = 0.7 * tonumber(pace[2]) + 0.3 * gap_ms end
  redis.call('HSET', key_pace(t.label), 'mark_ms', now_ms, 'gap_ms', string.format('%.1f', gap_ms))
  redis.call('EXPIRE', key_pace(t.label), redis.call('EXISTS', key_line(t.label)) == 1 and 3600 or 45)
  if redis.call('ZSCORE', key_turns, t.label) then take_turn(t.label) end
  redis.call('SADD', key_handed(t.hub), t.id)
  redis.call('HSET', key_slot(found.slot), 'unseen', t.hub)
  redis.call('PUBLISH', key_granted(t.hub), t.id)
end

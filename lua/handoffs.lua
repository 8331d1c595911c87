-- Hand-offs: slots that go from one holder to the next waiter without being free in between.
local handoffs = {}

-- Delete the ticket that was served. A ticket with an idempotency key is kept for 60 s, so that its place is known should the lease be
-- undone.
function handoffs.leave_place(t)
  if t.keyed then
    redis.call('HSET', keys.ticket(t.id), 'handed', '1')
    redis.call('EXPIRE', keys.ticket(t.id), 60)
  else
    redis.call('DEL', keys.ticket(t.id))
  end
end

-- Give a ticket whose lease was undone its place back for a while, if it has an idempotency key.
function handoffs.keep_place(t)
  if not t.label then return end
  history.away(t, 'undone')
  redis.call('PERSIST', keys.ticket(t.id))
  redis.call('HDEL', keys.ticket(t.id), 'handed')
  redis.call('ZADD', keys.ticket_deadlines, store.clock_ms + tickets.AWAY_MS, t.id)
end

-- Grant a slot that is in no list to a waiting ticket and tell its hub. found: slot item pool node part own_idle_ms.
function handoffs.hand_on(t, found)
  tickets.step_out(t)
  leases.grant(t, found)
  history.note('grant.handed', 'slot', found.slot, 'node', found.node, 'pool', found.pool, 'label', t.label, 'run', t.run,
    'ticket', t.id, 'ttl_ms', t.ttl_ms)
  handoffs.leave_place(t)
  local pace = redis.call('HMGET', keys.pace(t.label), 'mark_ms', 'gap_ms')
  local gap_ms = math.max(0, store.now_ms - tonumber(pace[1] or store.now_ms))
  if pace[2] then gap_ms = 0.7 * tonumber(pace[2]) + 0.3 * gap_ms end
  redis.call('HSET', keys.pace(t.label), 'mark_ms', store.now_ms, 'gap_ms', string.format('%.1f', gap_ms))
  redis.call('EXPIRE', keys.pace(t.label), redis.call('EXISTS', keys.queue(t.label)) == 1 and keys.seconds.pace or 45)
  if redis.call('ZSCORE', keys.turns, t.label) then turns.take(t.label) end
  redis.call('SADD', keys.handed(t.hub), t.id)
  redis.call('HSET', keys.slot(found.slot), 'unseen', t.hub)
  notifications.publish(keys.granted(t.hub), t.id)
end

return handoffs

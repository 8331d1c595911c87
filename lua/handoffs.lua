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
  history.granted('grant.handed', found, t.id, t)
  handoffs.leave_place(t)
  local key = keys.pace(tickets.pace_of(t.label, t.want))
  local pace = redis.call('HMGET', key, 'mark_ms', 'gap_ms')
  local gap_ms = math.max(0, store.now_ms - tonumber(pace[1] or store.now_ms))
  if pace[2] then gap_ms = 0.7 * tonumber(pace[2]) + 0.3 * gap_ms end
  redis.call('HSET', key, 'mark_ms', store.now_ms, 'gap_ms', string.format('%.1f', gap_ms))
  redis.call('EXPIRE', key, t.want == '' and redis.call('EXISTS', keys.queue(t.label)) == 1 and keys.seconds.pace or 45)
  if redis.call('ZSCORE', keys.turns, t.label) then turns.take(t.label) end
  redis.call('SADD', keys.handed(t.hub), t.id)
  redis.call('HSET', keys.slot(found.slot), 'unseen', t.hub, 'began', usage.began(tonumber(t.since_ms or '')))
  local before = call_state.released[found.slot]  -- a late repeat of a return means the lease before, not this one
  if before then redis.call('HSET', keys.slot(found.slot), 'before', before) end
  notifications.publish(keys.granted(t.hub), t.id)
end

return handoffs

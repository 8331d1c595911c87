-- The queue: tickets that wait for a slot, and the answers to their callers.
local queue = {}

-- Return the answer to a repeat of a request that was granted: its lease as it is now or where it is in another realm; 'reused' | 'over'
-- else. The attempt becomes an owner of the lease.
function queue.granted(record, request, attempt, fingerprint, hub)
  local there = spill_over.read(record)
  if there then return there.asked == fingerprint and spill_over.said(there) or {'reused'} end
  local asked, slot, token, owners = string.match(record, '^(.-)|(.*)|(%d+)|(.*)$')
  if asked ~= fingerprint then return {'reused'} end
  redis.call('SREM', keys.handed(hub), request)
  local held = redis.call('HMGET', keys.session(slot), 'leaseToken', 'poolLabel', 'ttlSeconds', 'runId', 'holder', 'labelKey')
  if held[1] ~= token then return {'over', slot} end
  owners = tickets.settle_delivery(slot, request) and attempt or attempts.add(owners, attempt)
  redis.call('SET', keys.request(request), table.concat({fingerprint, slot, token, owners}, '|'), 'KEEPTTL')
  local left_ms = tonumber(redis.call('ZSCORE', keys.deadlines, slot) or store.clock_ms) - store.clock_ms
  local item, class = unpack(redis.call('HMGET', keys.slot(slot), 'item', 'class'))
  return {'ok', slot, token, item, held[2], math.max(0, math.floor(left_ms)),
    math.floor(tonumber(held[3]) * 1000), held[4], {}, held[5] or '', held[6], class or ''}
end

-- Return the answer to a ticket that stood in the queue at the beginning of the call and may have been granted in it.
function queue.standing(t, attempt, fingerprint, hub)
  local record = redis.call('GET', keys.request(t.id))
  if record then return queue.granted(record, t.id, attempt, fingerprint, hub) end
  local label, want = alternatives.first(t)
  local rank = redis.call('ZRANK', want == '' and turns.plain(label) or lines.key_of(label, want), t.id)
  return {'waiting', rank + 1, tickets.estimate(label, rank, want), call_state.dropped}
end

-- Note that a caller attends a ticket, perhaps again and at another hub, and put it into the queue at its old place.
function queue.attend(t, hub, attempt, until_ms)
  if t.hub ~= hub then redis.call('SREM', keys.waiters(t.hub), t.id) end
  t.hub, t.attempt = hub, attempt
  redis.call('HSET', keys.ticket(t.id), 'hub', hub, 'attempt', attempt, 'until_ms', until_ms)
  redis.call('PERSIST', keys.ticket(t.id))
  redis.call('HDEL', keys.ticket(t.id), 'handed')
  tickets.join(t, until_ms)
  if redis.call('HDEL', keys.ticket(t.id), 'told_away') == 1 then history.ticket('ticket.waiting', t, 'again') end
end

-- Return why a newcomer may not wait, as the answer of the command; nil when it may.
function queue.admit(wanted, max_label, max_run, limit_ms, priority)
  for i = 1, wanted.alternatives and #wanted.alternatives or 1 do
    local waiting = redis.call('ZCARD', keys.queue(wanted.alternatives and wanted.alternatives[i][1] or wanted.label))
    if waiting >= max_label then return {'per-label-cap', waiting} end
  end
  local most = wanted.alternatives and line_limits.exceeded(wanted.alternatives, wanted.holder)
  if most then return {'too-many-expressions', most} end
  local pending = tonumber(redis.call('HGET', keys.pending, wanted.run) or '0')
  if pending >= max_run then return {'per-run-cap', pending} end
  if limit_ms >= 0 then
    local label, want = alternatives.first(wanted)
    local ahead = queue_order.ahead_of(label, priority, want)
    local takes_ms = tickets.estimate(label, ahead, want)
    if takes_ms > limit_ms then return {'deadline', ahead + 1, takes_ms} end
  end
end

-- Write the ticket of a newcomer and put it into the queue. With a limit it is known when its caller gives up, after however many calls.
function queue.enter(wanted, priority, until_ms)
  wanted.score = queue_order.next_score(priority)
  redis.call('HSET', keys.ticket(wanted.id), 'label', wanted.label, 'run', wanted.run, 'hub', wanted.hub, 'attempt', wanted.attempt,
    'score', wanted.score, 'since_ms', store.now_ms, 'until_ms', until_ms, 'idle_ms', wanted.idle_ms,
    'ttl_ms', string.match(wanted.ttl_ms, '%d.*'), 'ttl_default', string.sub(wanted.ttl_ms, 1, 1) == '-' and '1' or '0',
    'priority', priority, 'fingerprint', wanted.fingerprint, 'keep_s', wanted.keep_s, 'keyed', wanted.keyed and '1' or '0',
    'holder', wanted.holder, unpack(wanted.limit_ms >= 0 and {'gives_up_ms', store.clock_ms + wanted.limit_ms} or {}))
  if wanted.asked then redis.call('HSET', keys.ticket(wanted.id), 'alternatives', wanted.asked, 'prefer', wanted.prefer) end
  if wanted.wish then
    redis.call('HSET', keys.ticket(wanted.id), 'bundle', wanted.bundle, 'patient_since_ms', numbers.whole(store.clock_ms))
  end
  if tickets.join(wanted, until_ms) then history.ticket('ticket.waiting', wanted, '') end
end

return queue

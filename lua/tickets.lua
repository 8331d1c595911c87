-- Tickets: borrows that wait in the queue, and their records.
local tickets = {}

tickets.AWAY_MS = 60000   -- how long a ticket with an idempotency key keeps its place while no caller attends it

local NUMBERS = {'score', 'ttl_ms', 'idle_ms', 'keep_s'}

-- Return a ticket as a table; `label` is nil when there is no such ticket or no hub wrote it.
function tickets.read(ticket)
  local t = lenient.fields(keys.ticket(ticket), 'label', 'run', 'hub', 'attempt', 'score', 'ttl_ms', 'idle_ms',
    'fingerprint', 'keep_s', 'keyed', 'handed')
  local read = {id = ticket, label = t[1], run = t[2], hub = t[3], attempt = t[4], score = t[5], ttl_ms = t[6],
    idle_ms = t[7], fingerprint = t[8], keep_s = t[9], keyed = t[10] == '1', handed = t[11]}
  return lenient.are_numbers(read, NUMBERS) and read or {id = ticket}
end

-- Put a ticket into the queue, attended by its hub until `until_ms` on the hub clock. Returns whether it was not there before.
function tickets.join(t, until_ms)
  local new = redis.call('ZADD', keys.queue(t.label), t.score, t.id) == 1
  if new then
    redis.call('HINCRBY', keys.pending, t.run, 1)
    if not redis.call('ZSCORE', keys.turns, t.label) then
      redis.call('HSET', keys.pace(t.label), 'mark_ms', store.now_ms)
      redis.call('EXPIRE', keys.pace(t.label), keys.seconds.pace)
      turns.take(t.label)
    end
  end
  redis.call('SADD', keys.waiters(t.hub), t.id)
  redis.call('ZADD', keys.hubs, store.clock_ms, t.hub)
  redis.call('ZADD', keys.ticket_deadlines, until_ms + 2000, t.id)
  return new
end

-- Take a ticket out of the queue and all counts; the caller deletes or keeps its record. Returns whether it was in the queue.
function tickets.step_out(t)
  redis.call('SREM', keys.waiters(t.hub), t.id)
  redis.call('ZREM', keys.ticket_deadlines, t.id)
  if redis.call('ZREM', keys.queue(t.label), t.id) == 0 then return false end
  if redis.call('HINCRBY', keys.pending, t.run, -1) <= 0 then redis.call('HDEL', keys.pending, t.run) end
  if redis.call('EXISTS', keys.queue(t.label)) == 0 then turns.reoffer(t.label) end
  return true
end

-- Take a ticket that no caller attends out of the queue. With an idempotency key it keeps its place for a while, else it is deleted.
-- Returns 'away' | 'dropped'.
function tickets.set_aside(t, why)
  local waited = tickets.step_out(t)
  if t.keyed then
    if waited then history.away(t, why) end
    redis.call('ZADD', keys.ticket_deadlines, store.clock_ms + tickets.AWAY_MS, t.id)
    return 'away'
  end
  redis.call('DEL', keys.ticket(t.id))
  if waited then history.ticket('ticket.left', t, why) end
  return 'dropped'
end

-- Note that a lease that was handed on was delivered, by any hub, or is taken back: its hub need not deliver it. Returns whether it
-- still had to.
function tickets.settle_delivery(slot, ticket)
  local hub = redis.call('HGET', keys.slot(slot), 'unseen')
  if not hub then return false end
  redis.call('SREM', keys.handed(hub), ticket)
  redis.call('HSET', keys.slot(slot), 'seen_ms', store.clock_ms)
  return redis.call('HDEL', keys.slot(slot), 'unseen') == 1
end

-- Return in how many ms a ticket with so many before it is served, as an estimate; -1 when this queue has not moved yet, or when it is
-- empty and its last move is too long ago to say anything.
function tickets.estimate(label, before)
  local pace = lenient.fields(keys.pace(label), 'mark_ms', 'gap_ms')
  local gap_ms = tonumber(pace[1] or '') and tonumber(pace[2] or '')
  if not gap_ms then return -1 end
  local since_ms = math.max(0, store.now_ms - tonumber(pace[1]))
  if redis.call('EXISTS', keys.queue(label)) == 0 then return since_ms > gap_ms and -1 or math.ceil(gap_ms) end
  return math.ceil(before * gap_ms + math.max(gap_ms, since_ms))
end

return tickets

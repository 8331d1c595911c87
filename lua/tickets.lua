-- Tickets: borrows that wait in the queue, and their records.
local tickets = {}

tickets.AWAY_MS = 60000   -- how long a ticket with an idempotency key keeps its place while no caller attends it

local NUMBERS = {'score', 'ttl_ms', 'idle_ms', 'keep_s'}

-- Return a ticket as a table; `label` is nil when there is no such ticket or no hub wrote it.
function tickets.read(ticket)
  local t = lenient.fields(keys.ticket(ticket), 'label', 'run', 'hub', 'attempt', 'score', 'ttl_ms', 'idle_ms',
    'fingerprint', 'keep_s', 'keyed', 'handed', 'holder', 'since_ms', 'ttl_default', 'alternatives', 'bundle', 'prefer')
  local ttl_ms = t[14] == '1' and t[6] and '-' .. t[6] or t[6]  -- negative: a default, as in capacity/borrow
  local read = {id = ticket, label = t[1], run = t[2], hub = t[3], attempt = t[4], score = t[5], ttl_ms = ttl_ms, idle_ms = t[7],
    fingerprint = t[8], keep_s = t[9], keyed = t[10] == '1', handed = t[11], holder = t[12] or '', since_ms = t[13], want = '',
    alternatives = alternatives.read(t[15] or ''), wish = bundle_wishes.read(t[16] or ''), prefer = t[17] or ''}
  if read.wish then read.wish.team = holders.of(read.holder).team end
  return read.alternatives ~= false and read.wish ~= false and lenient.are_numbers(read, NUMBERS) and read or {id = ticket}
end

-- Put a ticket into the queue, attended by its hub until `until_ms` on the hub clock. Returns whether it was not there before.
function tickets.join(t, until_ms)
  local new = lines.join(t)
  if new then redis.call('HINCRBY', keys.pending, t.run, 1) end
  redis.call('SADD', keys.waiters(t.hub), t.id)
  redis.call('ZADD', keys.hubs, store.clock_ms, t.hub)
  redis.call('ZADD', keys.ticket_deadlines, until_ms + 2000, t.id)
  return new
end

-- Take a ticket out of the queue and all counts; the caller deletes or keeps its record. Returns whether it was in the queue.
function tickets.step_out(t)
  redis.call('SREM', keys.waiters(t.hub), t.id)
  redis.call('ZREM', keys.ticket_deadlines, t.id)
  if not lines.step_out(t) then return false end
  if redis.call('HINCRBY', keys.pending, t.run, -1) <= 0 then redis.call('HDEL', keys.pending, t.run) end
  return true
end

-- Take a ticket that no caller attends out of the queue. With an idempotency key it keeps its place for a while, else it is deleted.
-- Returns 'away' | 'dropped'.
function tickets.set_aside(t, why)
  t.comes_again = t.keyed and why == 'timeout'
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

-- Return the name of the pace of a line: that of its label where its tickets want nothing in particular.
function tickets.pace_of(label, want) return (want or '') == '' and label or label .. ' ' .. want end

-- Return in how many ms a ticket with so many before it in its line is served, as an estimate; -1 when the line has not moved yet, or
-- when no ticket waits for the label and the last move is too long ago to say anything.
function tickets.estimate(label, before, want)
  local pace = lenient.fields(keys.pace(tickets.pace_of(label, want)), 'mark_ms', 'gap_ms')
  local gap_ms = tonumber(pace[1] or '') and tonumber(pace[2] or '')
  if not gap_ms then return -1 end
  local since_ms = math.max(0, store.now_ms - tonumber(pace[1]))
  if redis.call('EXISTS', keys.queue(label)) == 0 then return since_ms > gap_ms and -1 or math.ceil(gap_ms) end
  return math.ceil(before * gap_ms + math.max(gap_ms, since_ms))
end

return tickets

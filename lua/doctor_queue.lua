-- Checks and repairs of the queue: labels that are waited for, and tickets.
local doctor_queue = {}

-- Whether a label that is waited for stands where freed slots look for it, and no other label does.
function doctor_queue.check(say, _, label)
  local first = redis.call('ZRANGE', keys.queue(label), 0, 0)[1]
  local turn = redis.call('ZSCORE', keys.turns, label)
  say('no turn', first and not turn)
  say('turn left', turn and not first)
  say('no ticket', first and redis.call('EXISTS', keys.ticket(first)) == 0)
  local wanted = first and turn and not caps.reached(label) and turn or false
  local places = {}
  if turns.is_wild(label) then places[1] = keys.wild end
  for n, stem in ipairs(places[1] and {} or turns.stems(label)) do places[n] = keys.under(stem) end
  for _, index in ipairs(places) do
    local has = redis.call('ZSCORE', index, label)
    if wanted and has ~= wanted then return say('not offered', true) end
    if has and not wanted then return say('offered', true) end
  end
end

-- Put a label that is waited for where freed slots look for it, and serve it; drop what stands in the queue without a ticket.
function doctor_queue.repair(label)
  for _, ticket in ipairs(redis.call('ZRANGE', keys.queue(label), 0, 99)) do
    if redis.call('EXISTS', keys.ticket(ticket)) == 0 then redis.call('ZREM', keys.queue(label), ticket) end
  end
  if redis.call('EXISTS', keys.queue(label)) == 1 and not redis.call('ZSCORE', keys.turns, label) then turns.take(label) end
  serving.label(label)
end

-- Whether a ticket that waits is attended by its hub, and any other will be dropped.
function doctor_queue.check_ticket(say, limits, ticket)
  local t = tickets.read(ticket)
  local deadline = redis.call('ZSCORE', keys.ticket_deadlines, ticket)
  if t.label and redis.call('ZSCORE', keys.queue(t.label), ticket) then
    say('unattended', redis.call('SISMEMBER', keys.waiters(t.hub), ticket) == 0)
    say('endless', not deadline)
    say('abandoned', hubs.is_silent(t.hub, limits.grace_ms))
  else
    say('left', t.label and not deadline and redis.call('PTTL', keys.ticket(ticket)) == -1)
  end
end

-- Let a ticket that waits be attended by its hub again for as long as it said, and drop one that nothing would ever drop.
function doctor_queue.repair_ticket(ticket)
  local t = tickets.read(ticket)
  if t.label and redis.call('ZSCORE', keys.queue(t.label), ticket) then
    local until_ms = tonumber(redis.call('HGET', keys.ticket(ticket), 'until_ms') or store.clock_ms)
    redis.call('SADD', keys.waiters(t.hub), ticket)
    redis.call('ZADD', keys.ticket_deadlines, 'NX', until_ms + 2000, ticket)
  elseif t.label and not redis.call('ZSCORE', keys.ticket_deadlines, ticket) and redis.call('PTTL', keys.ticket(ticket)) == -1 then
    redis.call('DEL', keys.ticket(ticket))
  end
end

return doctor_queue

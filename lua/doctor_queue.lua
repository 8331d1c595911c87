-- Checks and repairs of the queue: labels for which tickets wait, and tickets.
local doctor_queue = {}

-- Check a label: while tickets wait below its cap it must stand in the indexes in which freed slots look for waiters, else in none.
function doctor_queue.check(say, _, label)
  local first, lined = redis.call('ZRANGE', keys.queue(label), 0, 0)[1], redis.call('EXISTS', keys.lines(label)) == 1
  local plain = lined and redis.call('EXISTS', lines.key_of(label, '')) == 1 or not lined and first
  local turn = redis.call('ZSCORE', keys.turns, label)
  say('no turn', first and not turn)
  say('turn left', turn and not first)
  say('no ticket', first and redis.call('EXISTS', keys.ticket(first)) == 0)
  local wanted = plain and turn and not caps.reached(label) and turn or false
  local places = {}
  if turns.is_wild(label) then places[1] = keys.wild end
  for n, stem in ipairs(places[1] and {} or turns.stems(label)) do places[n] = keys.under(stem) end
  for _, index in ipairs(places) do
    local has = redis.call('ZSCORE', index, label)
    if wanted and has ~= wanted then return say('not offered', true) end
    if has and not wanted then return say('offered', true) end
  end
end

-- Put a label with waiting tickets into the indexes in which freed slots look for waiters, and serve it. Tickets without a record are
-- taken out of its queue, the first 100.
function doctor_queue.repair(label)
  for _, ticket in ipairs(redis.call('ZRANGE', keys.queue(label), 0, 99)) do
    if redis.call('EXISTS', keys.ticket(ticket)) == 0 then redis.call('ZREM', keys.queue(label), ticket) end
  end
  if redis.call('EXISTS', keys.queue(label)) == 1 and not redis.call('ZSCORE', keys.turns, label) then turns.take(label) end
  serving.label(label, true)
end

-- Return whether a ticket waits, for any of its labels or for several slots, and whether it misses one of its places, in the queues of
-- its labels, among the tickets that want the same, or in the line of bundles.
local function places_of(t)
  local waits, misses = false, false
  local function look(key)
    local score = redis.call('ZSCORE', key, t.id)
    misses = misses or tonumber(score or nil) ~= tonumber(t.score)
    return score
  end
  if t.wish then waits = look(keys.bundles) end
  for _, each in ipairs(t.label and not t.wish and alternatives.of(t) or {}) do
    local label, want = each[1], each[2]
    waits = look(keys.queue(label)) and true or waits
    if want ~= '' or redis.call('EXISTS', keys.lines(label)) == 1 then look(lines.key_of(label, want)) end
    if store.teams ~= '' then look(team_lines.of(label, want == '' and '-' or want, holders.of(t.holder).team)) end
  end
  return waits, misses
end

-- Check a ticket: one that waits must be attended by a hub that ticks and have a deadline; any other must have an expiry or a deadline.
function doctor_queue.check_ticket(say, limits, ticket)
  local t = tickets.read(ticket)
  local deadline = redis.call('ZSCORE', keys.ticket_deadlines, ticket)
  local waits, misses = places_of(t)
  if waits then
    say('not in its lines', misses)
    say('unattended', redis.call('SISMEMBER', keys.waiters(t.hub), ticket) == 0)
    say('endless', not deadline)
    say('abandoned', hubs.is_silent(t.hub, limits.grace_ms))
  else
    say('left', t.label and not deadline and redis.call('PTTL', keys.ticket(ticket)) == -1)
  end
end

-- Give a waiting ticket its places, its hub and its deadline back, and delete a ticket that would otherwise never be deleted.
function doctor_queue.repair_ticket(ticket)
  local t = tickets.read(ticket)
  if places_of(t) then
    lines.join(t)
    local until_ms = tonumber(redis.call('HGET', keys.ticket(ticket), 'until_ms') or store.clock_ms)
    redis.call('SADD', keys.waiters(t.hub), ticket)
    redis.call('ZADD', keys.ticket_deadlines, 'NX', until_ms + 2000, ticket)
  elseif t.label and not redis.call('ZSCORE', keys.ticket_deadlines, ticket) and redis.call('PTTL', keys.ticket(ticket)) == -1 then
    redis.call('DEL', keys.ticket(ticket))
  end
end

return doctor_queue

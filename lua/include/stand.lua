-- @include ticket
-- @include arrival
-- @include take
-- @include owners
-- @include history
-- What a repeat of a granted request is answered: its grant as it is now, of which this attempt is an owner then.
local function granted(record, request, attempt, fingerprint, hub)
  local asked, slot, token, owners = string.match(record, '^(.-)|(.*)|(%d+)|(.*)$')
  if asked ~= fingerprint then return {'reused'} end
  redis.call('SREM', key_handed(hub), request)
  local held = redis.call('HMGET', key_session(slot), 'leaseToken', 'poolLabel', 'ttlSeconds', 'runId')
  if held[1] ~= token then return {'over', slot} end
  owners = settle_delivery(slot, request) and attempt or add_owner(owners, attempt)
  redis.call('SET', key_request(request), table.concat({fingerprint, slot, token, owners}, '|'), 'KEEPTTL')
  local left_ms = tonumber(redis.call('ZSCORE', key_deadlines, slot) or clock_ms) - clock_ms
  return {'ok', slot, token, redis.call('HGET', key_slot(slot), 'item'), held[2], math.max(0, math.floor(left_ms)),
    math.floor(tonumber(held[3]) * 1000), held[4], {}}
end

-- What somebody who stood in line at the beginning of the script is answered at its end.
local function standing(t, attempt, fingerprint, hub)
  local record = redis.call('GET', key_request(t.id))
  if record then return granted(record, t.id, attempt, fingerprint, hub) end
  local rank = redis.call('ZRANK', key_line(t.label), t.id)
  return {'waiting', rank + 1, estimate(t.label, rank), dropped}
end

-- Somebody, perhaps at another hub, attends a ticket (again): it is in line at its old place.
local function attend(t, hub, attempt, until_ms)
  if t.hub ~= hub then redis.call('SREM', key_waiters(t.hub), t.id) end
  t.hub, t.attempt = hub, attempt
  redis.call('HSET', key_ticket(t.id), 'hub', hub, 'attempt', attempt, 'until_ms', until_ms)
  redis.call('PERSIST', key_ticket(t.id))
  redis.call('HDEL', key_ticket(t.id), 'handed')
  if join(t, until_ms) then note_ticket('ticket.waiting', t, 'again') end
end

-- Points of priority count as seconds in line, so that nothing starves. No two newcomers arrive at the same instant.
local function score_of(priority)
  local at_ms = arrival_ms()
  redis.call('HSET', key_store, 'line_ms', string.format('%.17g', at_ms), 'line_clock_ms', clock_ms)
  return string.format('%.17g', at_ms - priority * 1000)
end

-- Why a newcomer may not wait; nil when he may.
local function admit(wish, max_label, max_run, limit_ms, priority)
  local waiting = redis.call('ZCARD', key_line(wish.label))
  if waiting >= max_label then return {'per-label-cap', waiting} end
  local pending = tonumber(redis.call('HGET', key_pending, wish.run) or '0')
  if pending >= max_run then return {'per-run-cap', pending} end
  if limit_ms >= 0 then
    local ahead = ahead_of(wish.label, priority)
    local takes_ms = estimate(wish.label, ahead)
    if takes_ms > limit_ms then return {'deadline', ahead + 1, takes_ms} end
  end
end

-- Write the ticket of a newcomer and put it in line.
local function enter(wish, priority, until_ms)
  wish.score = score_of(priority)
  redis.call('HSET', key_ticket(wish.id), 'label', wish.label, 'run', wish.run, 'hub', wish.hub, 'attempt', wish.attempt,
    'score', wish.score, 'since_ms', now_ms, 'until_ms', until_ms, 'ttl_ms', wish.ttl_ms, 'idle_ms', wish.idle_ms,
    'priority', priority, 'fingerprint', wish.fingerprint, 'keep_s', wish.keep_s, 'keyed', wish.keyed and '1' or '0')
  if join(wish, until_ms) then note_ticket('ticket.waiting', wish, '') end
end

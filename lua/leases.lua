-- Leases: how a lease is made.
local leases = {}

function leases.note_run(slot, run)
  redis.call('SET', keys.browser_run(slot), run, 'EX', keys.seconds.browser_run)
  redis.call('ZADD', keys.run(run), numbers.whole(store.now_ms), slot)
end

-- Make a lease of a slot that is in no list: in-use list, session, deadline, footprints, indexes, in one go.
-- lease: slot item pool node part label run token ttl_ms idle_ms; listed: it is in the in-use list already. Needs the two
-- times of `store`.
function leases.lend(lease)
  local slot, ttl_ms = lease.slot, lease.ttl_ms
  local at, idle_ms = numbers.whole(store.now_ms), lease.idle_ms > 0 and numbers.whole(lease.idle_ms) or '0'
  if not lease.listed then redis.call('RPUSH', keys.inuse(lease.pool), lease.item) end
  redis.call('SET', keys.borrow_ttl(slot), '1', 'PX', numbers.whole(ttl_ms))
  if lease.idle_ms > 0 then redis.call('SET', keys.borrow_idle(slot), '1', 'PX', idle_ms) end
  redis.call('HSET', keys.session(slot), 'browserId', slot, 'labelKey', lease.label, 'runId', lease.run,
    'nodeId', lease.node, 'borrowedAtUtc', times.text(store.now_ms), 'ttlSeconds', string.format('%.14g', ttl_ms / 1000),
    'poolLabel', lease.pool, 'leaseToken', lease.token)
  redis.call('HSET', keys.slot(slot), 'place', 'lent', 'label', lease.label, 'run', lease.run, 'granted_ms',
    numbers.whole(store.clock_ms), 'visible_ms', numbers.whole(store.now_ms + ttl_ms), 'watch_idle', idle_ms)
  redis.call('ZADD', keys.deadlines, numbers.whole(store.clock_ms + ttl_ms), slot)
  redis.call('ZADD', keys.in_flight(lease.label), at, slot)
  if lease.run ~= '' then leases.note_run(slot, lease.run) end
  redis.call('HSET', keys.lent(lease.part), slot, lease.token)
  orders.changed(lease.part)
end

-- What is lent of a node and was asked for under another label than that of its pool, or in a run, so that the node can
-- report it as such: {slot, label, run, ...}.
function leases.asked(part)
  local found = {}
  for _, slot in ipairs(redis.call('HKEYS', keys.lent(part))) do
    local said = redis.call('HMGET', keys.slot(slot), 'label', 'run', 'pool')
    if said[1] and (said[1] ~= said[3] or said[2] ~= '') then
      found[#found + 1], found[#found + 2], found[#found + 3] = slot, said[1], said[2] or ''
    end
  end
  return found
end

-- The idle clock of a slot in ms, 0 for none: its own rule, else the hub's; 0 in its own rule means the whole lease.
local function idle_of(own_ms, hub_idle_ms, ttl_ms)
  local own = tonumber(own_ms or '')
  if not own then return hub_idle_ms end
  if own > 0 then return own end
  return hub_idle_ms > 0 and ttl_ms or 0
end

-- The next token. It has more digits than a Lua number holds, so the last nine are counted here and the rest is text;
-- every thousand million leases Redis carries over.
function leases.next_token()
  local low = string.sub(store.token, -9) + 1
  if #store.token > 9 and low < 1000000000 then
    store.token = string.format('%s%09d', string.sub(store.token, 1, -10), low)
    redis.call('HSET', keys.store, 'token', store.token)
  else
    redis.call('HINCRBY', keys.store, 'token', 1)
    store.token = redis.call('HGET', keys.store, 'token')
  end
  return store.token
end

-- Grant a slot that is in no list as it was asked for, under the next token, and remember that for the request.
-- wanted: id label run ttl_ms idle_ms fingerprint attempt keep_s. found: slot item pool node part own_idle_ms.
function leases.grant(wanted, found)
  found.token = leases.next_token()
  found.label, found.run, found.ttl_ms = wanted.label, wanted.run, tonumber(wanted.ttl_ms)
  found.idle_ms = idle_of(found.own_idle_ms, tonumber(wanted.idle_ms), found.ttl_ms)
  leases.lend(found)
  redis.call('SET', keys.request(wanted.id),
    wanted.fingerprint .. '|' .. found.slot .. '|' .. found.token .. '|' .. wanted.attempt, 'EX', wanted.keep_s)
end

return leases

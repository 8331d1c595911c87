-- Confirm a lease that was made here for the ticket of another realm, for a few seconds: that realm has noted the lease as its answer.
-- The lease gets its full length, and from now on it belongs to the attempt of the caller, not to the request alone. Safe to repeat.
-- Returns {'ok', ...} as capacity/borrow does | {'over', slot} (it has ended) | {'unknown'} (it was taken back) | {'settling'} (the
--   store was lost, and the lease may yet be reported)
command.finish('capacity/confirm', {
  'request',         -- the request id under which the slot was lent here
  'slot',
  'token',
  'attempt',         -- id of the call that gets the lease
  'hub',             -- the hub that answers the caller
  'ttl_ms: number',  -- how long the lease lasts from now; negative: unless the rule of its pool says otherwise
}, function(a)
  local asked, slot, token, owners = string.match(redis.call('GET', keys.request(a.request)) or '', '^(.-)|(.*)|(%d+)|(.*)$')
  local held = redis.call('HGET', keys.session(a.slot), 'leaseToken')
  if store.settle_left_ms > 0 or reports.is_missing(a.slot, a.token, held) then return {'settling'} end
  if not slot then return held == a.token and {'over', a.slot} or {'unknown'} end
  if held ~= token or tonumber(redis.call('ZSCORE', keys.deadlines, slot) or '0') <= store.clock_ms then return {'over', slot} end
  if owners == a.request then
    local record = redis.call('HMGET', keys.slot(slot), 'watch_idle', 'pool')
    local ttl_ms = pool_rules.length_ms(pool_rules.of(record[2] or ''), a.ttl_ms)
    renewals.extend(slot, ttl_ms, record[1])
    redis.call('HSET', keys.session(slot), 'ttlSeconds', string.format('%.14g', ttl_ms / 1000))
    redis.call('SET', keys.request(a.request), table.concat({asked, slot, token, a.attempt}, '|'), 'KEEPTTL')
  end
  return queue.granted(redis.call('GET', keys.request(a.request)), a.request, a.attempt, asked, a.hub)
end)

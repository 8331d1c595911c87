-- The ticket of another realm, for which a slot was lent here for a few seconds, is served by that: the lease lasts as long as
-- was asked for, and belongs to this attempt too. Before that the request itself is its only owner. Safe to repeat.
-- Returns {'ok', ...} as capacity/borrow does | {'over', slot} | {'unknown'} (taken back) | {'settling'}
command.finish('capacity/confirm', {
  'request',          -- under which it was lent
  'slot',
  'token',
  'attempt',
  'hub',
  'ttl_ms: number',
}, function(a)
  local asked, slot, token, owners = string.match(redis.call('GET', keys.request(a.request)) or '', '^(.-)|(.*)|(%d+)|(.*)$')
  local held = redis.call('HGET', keys.session(a.slot), 'leaseToken')
  if store.settle_left_ms > 0 or reports.is_missing(a.slot, a.token, held) then return {'settling'} end
  if not slot then return held == a.token and {'over', a.slot} or {'unknown'} end
  if held ~= token or tonumber(redis.call('ZSCORE', keys.deadlines, slot) or '0') <= store.clock_ms then return {'over', slot} end
  if owners == a.request then
    renewals.extend(slot, a.ttl_ms, redis.call('HGET', keys.slot(slot), 'watch_idle'))
    redis.call('HSET', keys.session(slot), 'ttlSeconds', string.format('%.14g', a.ttl_ms / 1000))
    redis.call('SET', keys.request(a.request), table.concat({asked, slot, token, a.attempt}, '|'), 'KEEPTTL')
  end
  return queue.granted(redis.call('GET', keys.request(a.request)), a.request, a.attempt, asked, a.hub)
end)

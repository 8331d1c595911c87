-- Note that a hub has said what it remembers, after the store was lost. When all hubs that ticked then have done so, lending goes on;
-- at the earliest after two ticks, for a hub that started in the time that was lost is not known here. Tokens go on above the highest
-- one that this hub remembers, and the hub clock of a store that came back empty is moved to what this hub heard. Safe to repeat.
-- Returns {'ok', ms until the store has settled}
command.finish('store/told', {
  'hub_id',            -- the calling hub
  'floor',             -- the highest token that the hub remembers, '0' for none
  'heard_ms: number',  -- the highest reading of the hub clock that the hub remembers
}, function(a)
  local known = redis.call('SREM', keys.telling, a.hub_id) == 1
  if numbers.above(a.floor, store.token) then
    redis.call('HSET', keys.store, 'token', a.floor)
    redis.call('HINCRBY', keys.store, 'token', 1048576)
    if store.settle_left_ms > 0 then redis.call('HSET', keys.store, 'lost_below', redis.call('HGET', keys.store, 'token')) end
  end
  local behind_ms = a.heard_ms - math.floor(store.clock_ms)
  if store.settle_left_ms > 0 and behind_ms > 0 and redis.call('HGET', keys.store, 'lost_above') == '0' then
    for _, field in ipairs({'clock_ms', 'settle_ms', 'reopened_ms', 'born_ms'}) do
      redis.call('HINCRBY', keys.store, field, string.format('%d', behind_ms))
    end
    store.clock_ms, store.reopened_ms = store.clock_ms + behind_ms, store.reopened_ms + behind_ms
  end
  if store.settle_left_ms > 0 and known and redis.call('EXISTS', keys.telling) == 0 then
    store.settle_left_ms = math.max(0, math.min(store.settle_left_ms, store.reopened_ms + 1000 - store.clock_ms))
    redis.call('HSET', keys.store, 'settle_ms', string.format('%d', store.clock_ms + store.settle_left_ms))
  end
  return {'ok', math.max(0, store.settle_left_ms)}
end)

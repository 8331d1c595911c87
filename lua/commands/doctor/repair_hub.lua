-- Count a hub that left something behind among those that are gone, for its waiters to be dropped. Safe to repeat.
-- Returns {'ok'}
command.change('doctor/repair_hub', {
  'hub',
}, function(a)
  redis.call('ZADD', keys.hubs, 'NX', store.clock_ms - 60000, a.hub)
  return {'ok'}
end)

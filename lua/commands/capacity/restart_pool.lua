-- Put a pool under maintenance, so that each slot of it is replaced; mark_slots then asks for that in batches.
-- Returns {'ok', free slots, lent slots}
command.change('capacity/restart_pool', {
  'pool',
}, function(a)
  local free, lent = redis.call('LLEN', keys.available(a.pool)), redis.call('LLEN', keys.inuse(a.pool))
  if redis.call('EXISTS', keys.maintenance(a.pool)) == 0 then history.note('pool.maintenance', 'pool', a.pool, 'why', '') end
  redis.call('SET', keys.maintenance(a.pool), '1', 'EX', keys.seconds.maintenance)
  redis.call('SET', keys.maintenance_target(a.pool), free + lent, 'EX', keys.seconds.maintenance_target)
  redis.call('SET', keys.maintenance_since(a.pool), times.text(store.now_ms), 'EX', keys.seconds.maintenance_since)
  redis.call('SET', keys.maintenance_free(a.pool), free, 'EX', keys.seconds.maintenance_free)
  redis.call('SET', keys.maintenance_lent(a.pool), lent, 'EX', keys.seconds.maintenance_lent)
  redis.call('SUNIONSTORE', keys.replacing(a.pool), keys.pool_slots(a.pool))
  redis.call('EXPIRE', keys.replacing(a.pool), keys.seconds.replacing)
  return {'ok', free, lent}
end)

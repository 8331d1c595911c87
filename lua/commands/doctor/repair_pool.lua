-- Let the indexes of a pool label say what there is. Safe to repeat. Returns {'ok'}
command.change_unclocked('doctor/repair_pool', {
  'label',
  'segments',  -- of the index it was found in
}, function(a)
  if redis.call('EXISTS', keys.pool_slots(a.label)) == 1 then
    redis.call('ZADD', keys.pools, 0, a.label)
  else
    redis.call('ZREM', keys.pools, a.label)
  end
  redis.call('ZREM', keys.open_pools(a.segments), a.label)
  if redis.call('EXISTS', keys.available(a.label)) == 1 then pools.open(a.label) else pools.close(a.label) end
  return {'ok'}
end)

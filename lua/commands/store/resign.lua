-- Give up the leadership of a hub that stops, so that another hub sweeps from its next tick on, and let the hub count as silent at once.
-- Its reading of the clock, 0, says that it did not vanish. Returns {'ok'}
command.change_unclocked('store/resign', {
  'hub_id',  -- the hub that stops
}, function(a)
  if redis.call('HGET', keys.store, 'leader') == a.hub_id then redis.call('HDEL', keys.store, 'leader', 'leader_until_ms') end
  redis.call('ZADD', keys.hubs, 'XX', 0, a.hub_id)
  return {'ok'}
end)

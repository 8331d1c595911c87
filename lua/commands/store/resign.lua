-- Give up the leadership of a hub that stops, so that another hub sweeps from its next tick on. Returns {'ok'}
command.change_unclocked('store/resign', {
  'hub_id',  -- the hub that stops
}, function(a)
  if redis.call('HGET', keys.store, 'leader') == a.hub_id then redis.call('HDEL', keys.store, 'leader', 'leader_until_ms') end
  return {'ok'}
end)

-- Bind a worker to a connection of its user; a worker that had hung up is not removed then. Safe to repeat.
-- Returns {'ok'} | {'worker'} (unknown) | {'forbidden'} (of another user) | {'full'} (the connection has as many workers as allowed)
command.finish('presence/bind', {
  'worker',
  'user',          -- the calling user
  'connection',
  'hub',           -- the hub that has the connection
  'most: number',  -- most workers of a connection
}, function(a)
  local owner = redis.call('HGET', keys.worker(a.worker), 'user')
  if not owner then return {'worker'} end
  if owner ~= a.user then return {'forbidden'} end
  if redis.call('SISMEMBER', keys.bound(a.connection), a.worker) == 0 and redis.call('SCARD', keys.bound(a.connection)) >= a.most then
    for _, other in ipairs(redis.call('SMEMBERS', keys.bound(a.connection))) do
      if redis.call('EXISTS', keys.worker(other)) == 0 then redis.call('SREM', keys.bound(a.connection), other) end
    end
    if redis.call('SCARD', keys.bound(a.connection)) >= a.most then return {'full'} end
  end
  redis.call('SADD', keys.sockets(a.worker), a.connection)
  redis.call('SADD', keys.bound(a.connection), a.worker)
  redis.call('SADD', keys.connections(a.hub), a.connection)
  redis.call('SADD', keys.socket_hubs, a.hub)
  redis.call('ZREM', keys.hung_up, a.worker)
  return {'ok'}
end)

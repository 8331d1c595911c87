-- A write after which a connection can wait for replicas: what it waits for is what was written before, by anybody.
-- Returns {'ok'}
command.change_unclocked('store/confirm', {
}, function()
  redis.call('HSET', keys.store, 'confirm', '1')
  return {'ok'}
end)

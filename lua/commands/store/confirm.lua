-- A write after which a connection can wait for replicas: it waits for all that was written before.
-- Returns {'ok'}
command.change_unclocked('store/confirm', {
}, function()
  redis.call('HSET', keys.store, 'confirm', '1')
  return {'ok'}
end)

-- Write a field of the store, so that WAIT on the same connection waits until replicas have all that was written before. Returns {'ok'}
command.change_unclocked('store/confirm', {
}, function()
  redis.call('HSET', keys.store, 'confirm', '1')
  return {'ok'}
end)

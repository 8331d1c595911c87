-- Set how many events are kept. Safe to repeat. Returns {'ok'}
command.finish('store/keep_history', {
  'most',
}, function(a)
  redis.call('HSET', keys.store, 'history_max', a.most)
  return {'ok'}
end)

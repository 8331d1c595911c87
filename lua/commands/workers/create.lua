-- Make a worker of a user's. Safe to repeat. Returns {'ok', last beat in microseconds}
command.change('workers/create', {
  'worker',
  'user',
}, function(a)
  return {'ok', redis.call('HGET', keys.worker(a.worker), 'beat') or workers.create(a.worker, a.user)}
end)

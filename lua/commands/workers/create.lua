-- Make a worker of a user. Safe to repeat. Returns {'ok', time of its last heartbeat in microseconds as text}
command.change('workers/create', {
  'worker',
  'user',
}, function(a)
  return {'ok', redis.call('HGET', keys.worker(a.worker), 'beat') or workers.create(a.worker, a.user)}
end)

-- Take a task off the dead-letter list. Returns {'ok'} | {'task'} (it is not on it)
command.finish('tasks/drop_dead', {
  'id',
}, function(a)
  return {redis.call('ZREM', keys.dead, a.id) == 1 and 'ok' or 'task'}
end)

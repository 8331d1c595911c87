-- Take a task off the list of dead letters. Returns {'ok'} | {'task'} (it is not on the list)
command.finish('tasks/drop_dead', {
  'id',
}, function(a)
  return {redis.call('ZREM', keys.dead, a.id) == 1 and 'ok' or 'task'}
end)

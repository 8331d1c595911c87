-- Remove a hook with what waits for it; the last one ends the reading of the history. Safe to repeat. Returns {'ok'} | {'unknown'}
command.finish('hooks/remove', {
  'id',
}, function(a)
  local known = redis.call('ZREM', keys.hooks, a.id) == 1
  redis.call('UNLINK', keys.hook(a.id), keys.hook_queue(a.id), keys.hook_tries(a.id))
  redis.call('ZREM', keys.hooks_due, a.id)
  redis.call('HDEL', keys.hooks_paused, a.id)
  if known and redis.call('EXISTS', keys.hooks) == 0 then hooks.stop() end
  return {known and 'ok' or 'unknown'}
end)

-- Pause a hook, or resume it: what waits for it is tried again at once. Safe to repeat. Returns {'ok'} | {'unknown'}
command.finish('hooks/pause', {
  'id',
  'why',  -- '' to resume it
}, function(a)
  if not redis.call('ZSCORE', keys.hooks, a.id) then return {'unknown'} end
  if a.why ~= '' then
    redis.call('HSET', keys.hook(a.id), 'paused', a.why)
    redis.call('ZREM', keys.hooks_due, a.id)
  else
    redis.call('HDEL', keys.hook(a.id), 'paused')
    redis.call('HDEL', keys.hooks_paused, a.id)
    redis.call('DEL', keys.hook_tries(a.id))
    hooks.wake(a.id)
  end
  return {'ok'}
end)

-- Count the waiters of a run again. Safe to repeat. Returns {'ok'}
command.change_unclocked('doctor/repair_run', {
  'run',
}, function(a)
  local count = hubs.waiters_of(a.run)
  if count == 0 then redis.call('HDEL', keys.pending, a.run) end
  if count and count > 0 then redis.call('HSET', keys.pending, a.run, count) end
  return {'ok'}
end)

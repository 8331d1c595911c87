-- Write down how many tasks a job has and how many are put off, as they were counted while the old numbers stood there; if
-- they do not any more, somebody changed them meanwhile. Safe to repeat. Returns {'ok' | 'changed'}
command.change('doctor/repair_count', {
  'full',
  'tasks',
  'later',
  'was_tasks',
  'was_later',
}, function(a)
  local now = redis.call('HMGET', keys.job(a.full), 'tasks', 'later', 'id')
  if not now[3] or (now[1] or '0') ~= a.was_tasks or (now[2] or '0') ~= a.was_later then return {'changed'} end
  redis.call('HSET', keys.job(a.full), 'tasks', a.tasks, 'later', a.later)
  jobs.check_orphan(a.full)
  return {'ok'}
end)

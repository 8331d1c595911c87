-- Fail the tasks that a removed worker still holds, some at a time. Returns {'ok', how many are left}
command.finish('workers/bury', {
  'worker',
  'limit: number',
}, function(a)
  if redis.call('EXISTS', keys.worker(a.worker)) == 1 then return {'ok', 0} end
  return {'ok', dead_workers.fail_tasks(a.worker, a.limit)}
end)

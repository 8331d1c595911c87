-- Fail up to `limit` tasks that a removed worker still holds. Returns {'ok', number of tasks left; 0 also for a worker that exists}
command.finish('workers/bury', {
  'worker',
  'limit: number',  -- most tasks failed in this call
}, function(a)
  if redis.call('EXISTS', keys.worker(a.worker)) == 1 then return {'ok', 0} end
  return {'ok', dead_workers.fail_tasks(a.worker, a.limit)}
end)

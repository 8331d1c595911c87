-- Renewals of the leases of tasks, which last while their workers are heard.
local task_renewals = {}

-- Extend the leases of the tasks of a worker, which was heard.
function task_renewals.renew(worker)
  for _, id in ipairs(redis.call('SMEMBERS', keys.worker_tasks(worker))) do
    for _, each in ipairs(bundles.live(redis.call('HGET', keys.task(id), 'slots') or '')) do
      local ttl_ms = 1000 * tonumber(redis.call('HGET', keys.session(each[1]), 'ttlSeconds') or '60')
      local left_ms = tonumber(redis.call('ZSCORE', keys.deadlines, each[1]) or '0') - store.clock_ms
      if left_ms < 0.8 * ttl_ms then renewals.renew(each[1], each[2], ttl_ms, 1e13, 'operator') end
    end
  end
end

return task_renewals

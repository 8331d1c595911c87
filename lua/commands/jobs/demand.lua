-- Read what an autoscaler needs to know of a job; changes nothing. At most `limit` workers, or tasks of workers that serve several
-- jobs, are looked at.
-- Returns {tasks that can be claimed, tasks put off or waiting for others, claimed or running tasks, workers, 1 | 0 (more tasks may be
--   claimed or running), mean run time of late in microseconds or ''}
command.read('jobs/demand', {
  'full',           -- full name of the job
  'limit: number',  -- most workers or tasks that are looked at
}, function(a)
  local held, left, more = 0, a.limit, 0
  local function count(ids)
    for _, id in ipairs(ids) do
      if left == 0 then
        more = 1
        return
      end
      left = left - 1
      if redis.call('HGET', keys.task(id), 'job') == a.full then held = held + 1 end
    end
  end

  local linked = redis.call('SMEMBERS', keys.job_workers(a.full))
  if names.is_internal(a.full) then count(redis.call('ZRANGE', keys.internal_tasks, 0, a.limit)) end
  for _, worker in ipairs(linked) do
    if left == 0 then
      more = 1
      break
    end
    left = left - 1
    if redis.call('SCARD', keys.worker_jobs(worker)) == 1 then
      held = held + redis.call('SCARD', keys.worker_tasks(worker))
    else
      count(redis.call('SMEMBERS', keys.worker_tasks(worker)))
    end
  end
  local job = redis.call('HMGET', keys.job(a.full), 'later', 'run_us')
  return {redis.call('ZCARD', keys.job_queue(a.full)), tonumber(job[1] or '0'), held, #linked, more, job[2] or ''}
end)

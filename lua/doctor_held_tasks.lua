-- Checks and repairs of tasks that a worker or an executor holds: when that is gone, the task must end.
local doctor_held_tasks = {}

-- Return the index of deadlines in which a held task without a worker stands; false for a held task with a worker.
local function ends_in(t) return names.is_internal(t.job) and keys.internal_tasks or not t.worker and keys.ownerless end

function doctor_held_tasks.check(say, t)
  if ends_in(t) then return say('endless', not redis.call('ZSCORE', ends_in(t), t.id)) end
  local listed = redis.call('SISMEMBER', keys.worker_tasks(t.worker), t.id) == 1
  if redis.call('EXISTS', keys.worker(t.worker)) == 1 then return say('not of its worker', not listed) end
  local ends = listed and redis.call('SISMEMBER', keys.dead_workers, t.worker) == 1  -- what the worker held is being failed
  say('held by the dead', not (ends or redis.call('ZSCORE', keys.ownerless, t.id)))
end

-- Count a task under the limits of its job on what runs.
local function count(t)
  for _, each in ipairs(job_limits.groups(t)) do
    if each[1].running then
      redis.call('ZADD', keys.limit_taken(each[2]), '-inf', t.id)
      redis.call('SADD', keys.limit_groups(t.job), each[2])
    end
  end
end

function doctor_held_tasks.repair(t)
  count(t)
  if ends_in(t) then
    redis.call('ZADD', ends_in(t), 'NX', store.clock_ms, t.id)
  elseif redis.call('EXISTS', keys.worker(t.worker)) == 1 then
    redis.call('SADD', keys.worker_tasks(t.worker), t.id)
    if t.status == 'running' and not redis.call('ZSCORE', keys.silences, t.id) then progress.listen(t) end
  elseif redis.call('SISMEMBER', keys.dead_workers, t.worker) == 0 then
    outcomes.fail(t, 'Worker disconnected', 'doctor:' .. t.id)
    redis.call('HDEL', keys.task(t.id), 'worker')
    jobs.check_orphan(t.job)
  end
end

return doctor_held_tasks

-- Dead workers: what removed workers leave behind.
local dead_workers = {}

-- Fail up to `limit` tasks that a removed worker still holds, with the error `Worker disconnected`. When none is left, soft-delete its
-- jobs that no other worker serves. Returns how many tasks are left; they fail in further calls.
function dead_workers.fail_tasks(id, limit)
  local held = lenient.call(nil, 'SRANDMEMBER', keys.worker_tasks(id), limit)
  if not held then  -- the key has another type: another program uses it
    redis.call('SREM', keys.dead_workers, id)
    return 0
  end
  for _, task in ipairs(held) do
    local t = tasks.read(task)
    if t and t.worker == id then
      outcomes.fail(t, 'Worker disconnected', 'worker:' .. id)
      redis.call('HDEL', keys.task(task), 'worker')
    end
    redis.call('SREM', keys.worker_tasks(id), task)
  end
  local left = redis.call('SCARD', keys.worker_tasks(id))
  if left > 0 then
    redis.call('SADD', keys.dead_workers, id)
    return left
  end
  redis.call('SREM', keys.dead_workers, id)
  for _, full in ipairs(redis.call('SMEMBERS', keys.worker_jobs(id))) do
    events.jobs(names.room_of(full))
    jobs.check_orphan(full)
  end
  redis.call('DEL', keys.worker_jobs(id))
  return 0
end

-- Remove a worker, its providers and its links to jobs, and fail its first tasks. Returns how many of its tasks are left to fail.
function dead_workers.remove(id, why, limit)
  history.note('worker.gone', 'worker', id, 'why', why)
  for _, full in ipairs(redis.call('SMEMBERS', keys.worker_providers(id))) do providers.drop(full) end
  workers.unlink_all(id)
  redis.call('DEL', keys.worker(id), keys.worker_providers(id), keys.sockets(id))
  redis.call('ZREM', keys.workers, id)
  redis.call('ZREM', keys.worker_beats, id)
  redis.call('ZREM', keys.hung_up, id)
  return dead_workers.fail_tasks(id, limit)
end

return dead_workers

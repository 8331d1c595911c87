-- Workers that are gone, and what they leave behind.
local dead_workers = {}

-- Remove a worker and end what it held: tasks fail with `Worker disconnected`, its providers go, jobs it leaves as orphans
-- are soft-deleted. More tasks than `limit` fail in further calls; the worker itself is gone at once.
function dead_workers.fail_tasks(id, limit)
  local held = lenient.call(nil, 'SRANDMEMBER', keys.worker_tasks(id), limit)
  if not held then  -- another program uses the key
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

-- Returns how many of its tasks are not failed yet.
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

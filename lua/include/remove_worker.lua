-- @include worker
-- @include settle_task
-- @include drop_provider
-- Remove a worker and end what it held: tasks fail with `Worker disconnected`, its providers go, jobs it leaves as orphans
-- are soft-deleted. More tasks than `limit` fail in further calls; the worker itself is gone at once.
local function fail_tasks(id, limit)
  for _, task in ipairs(redis.call('SRANDMEMBER', key_worker_tasks(id), limit)) do
    local t = read_task(task)
    if t and t.worker == id then
      fail(t, 'Worker disconnected', 'worker:' .. id)
      redis.call('HDEL', key_task(task), 'worker')
    end
    redis.call('SREM', key_worker_tasks(id), task)
  end
  local left = redis.call('SCARD', key_worker_tasks(id))
  if left > 0 then
    redis.call('SADD', key_dead_workers, id)
    return left
  end
  redis.call('SREM', key_dead_workers, id)
  for _, full in ipairs(redis.call('SMEMBERS', key_worker_jobs(id))) do
    emit_jobs(room_of(full))
    check_orphan(full)
  end
  redis.call('DEL', key_worker_jobs(id))
  return 0
end

-- Returns how many of its tasks are not failed yet.
local function remove_worker(id, why, limit)
  note('worker.gone', 'worker', id, 'why', why)
  for _, full in ipairs(redis.call('SMEMBERS', key_worker_providers(id))) do drop_provider(full) end
  unlink_all(id)
  redis.call('DEL', key_worker(id), key_worker_providers(id), key_sockets(id))
  redis.call('ZREM', key_workers, id)
  redis.call('ZREM', key_worker_beats, id)
  redis.call('ZREM', key_hung_up, id)
  return fail_tasks(id, limit)
end

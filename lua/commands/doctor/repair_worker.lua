-- List a worker where it belongs. One whose record says too little, and what is left of one that is gone, is removed as the
-- dead are. Safe to repeat. Returns {'ok', tasks that are left for `bury`}
command.change('doctor/repair_worker', {
  'worker',
  'limit: number',  -- tasks failed in this step
}, function(a)
  local user, at, beat = unpack(redis.call('HMGET', keys.worker(a.worker), 'user', 'at', 'beat'))
  if not (user and at and beat) then
    local left = redis.call('EXISTS', keys.worker(a.worker), keys.worker_jobs(a.worker), keys.worker_rooms(a.worker),
      keys.worker_tasks(a.worker), keys.worker_providers(a.worker))
    if redis.call('SISMEMBER', keys.dead_workers, a.worker) == 1 then return {'ok', dead_workers.fail_tasks(a.worker, a.limit)} end
    return {'ok', left > 0 and dead_workers.remove(a.worker, 'doctor', a.limit) or 0}
  end
  redis.call('ZADD', keys.workers, at, a.worker)
  redis.call('ZADD', keys.worker_beats, 'NX', store.clock_ms, a.worker)
  workers.count_rooms(a.worker)
  return {'ok', 0}
end)

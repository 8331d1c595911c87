-- Link a worker and a job on both sides where one says so and both exist, else on neither. Safe to repeat. Returns {'ok'}
command.change('doctor/repair_link', {
  'worker',
  'full',
}, function(a)
  local known = redis.call('EXISTS', keys.worker(a.worker)) == 1
  local linked = redis.call('SISMEMBER', keys.worker_jobs(a.worker), a.full) + redis.call('SISMEMBER', keys.job_workers(a.full), a.worker)
  if known and linked > 0 and redis.call('HEXISTS', keys.job(a.full), 'id') == 1 then
    redis.call('SADD', keys.worker_jobs(a.worker), a.full)
    redis.call('SADD', keys.job_workers(a.full), a.worker)
    jobs.revive(a.full)
    workers.count_rooms(a.worker)
  elseif linked > 0 then
    redis.call('SREM', keys.job_workers(a.full), a.worker)
    if known then
      redis.call('SREM', keys.worker_jobs(a.worker), a.full)
      workers.count_rooms(a.worker)
    end
    jobs.check_orphan(a.full)
  end
  return {'ok'}
end)

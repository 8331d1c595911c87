-- List a job as what it is, and take one back that is soft-deleted and serves somebody. A record that says too little becomes
-- that of a soft-deleted job, for a worker to register it and for its tasks to be forgotten; but not while workers or tasks
-- need its schema: that nobody knows. Its queue is found by its first task again. Safe to repeat. Returns {'ok' | 'left'}
command.change('doctor/repair_job', {
  'full',
  'new',   -- an id, should it have none
}, function(a)
  job_queue.set_head(a.full)
  local id, at, schema, deleted, later = unpack(redis.call('HMGET', keys.job(a.full), 'id', 'at', 'schema', 'deleted', 'later'))
  local served = redis.call('EXISTS', keys.job_workers(a.full), keys.job_queue(a.full)) > 0 or tonumber(later or '0') > 0
  if not (id and at and schema) then
    if served then return {'left'} end
    at = at or numbers.digits(store.next_us())
    redis.call('HSET', keys.job(a.full), 'id', id or a.new, 'at', at, 'schema', '{}', 'digest', '', 'deleted', numbers.digits(store.now_us))
    redis.call('ZADD', keys.deleted_jobs, store.now_us, a.full)
    redis.call('ZREM', keys.room_jobs(names.room_of(a.full)), a.full)
  elseif deleted and served then
    jobs.revive(a.full)
    events.jobs(names.room_of(a.full))
  elseif deleted then
    redis.call('ZADD', keys.deleted_jobs, deleted, a.full)
  else
    redis.call('ZADD', keys.room_jobs(names.room_of(a.full)), at, a.full)
  end
  return {'ok'}
end)

-- Jobs: how a job is soft-deleted and taken back, and what is counted of it.
local jobs = {}

-- Soft-delete a job that has no worker and no pending task. Claimed and running tasks do not keep a job.
function jobs.check_orphan(full)
  if string.sub(full, 1, 10) == '@internal:' then return end
  if redis.call('EXISTS', keys.job_workers(full), keys.job_queue(full)) > 0 then return end
  local job = redis.call('HMGET', keys.job(full), 'at', 'deleted', 'later')
  if not job[1] or job[2] or tonumber(job[3] or '0') > 0 then return end
  redis.call('HSET', keys.job(full), 'deleted', numbers.digits(store.now_us))
  redis.call('ZADD', keys.deleted_jobs, store.now_us, full)
  redis.call('ZREM', keys.room_jobs(names.room_of(full)), full)
  history.note('job.orphaned', 'job', full)
  events.jobs(names.room_of(full))
end

-- Take a soft-deleted job back, with its id and its place in the lists. Returns whether it was soft-deleted.
function jobs.revive(full)
  if redis.call('HDEL', keys.job(full), 'deleted') == 0 then return false end
  redis.call('ZREM', keys.deleted_jobs, full)
  redis.call('ZADD', keys.room_jobs(names.room_of(full)), redis.call('HGET', keys.job(full), 'at'), full)
  return true
end

-- Count the schemas of a job for this user, and no longer for the user for whom they counted before. Returns nil, or the refusal of
-- `quotas.take`.
function jobs.count_schemas(full, user, schemas_bytes, is_free)
  local room, bytes = names.room_of(full), schemas_bytes + quotas.EACH
  local by, before = unpack(redis.call('HMGET', keys.job(full), 'by', 'bytes'))
  before = tonumber(before or '')
  if before == bytes then return end
  local other = by and by ~= user and before or nil  -- bytes that count for another user so far
  local refusal = quotas.take('schemas', user, room, by == user and bytes - before or bytes, {is_free = is_free, before = other})
  if refusal then return refusal end
  if other then quotas.release('schemas', by, room, other, 0) end
  redis.call('HSET', keys.job(full), 'by', user, 'bytes', numbers.whole(bytes))
end

-- Delete the record of a job, and count its schemas for its user no longer.
function jobs.drop(full)
  local by, bytes = unpack(lenient.fields(keys.job(full), 'by', 'bytes'))
  if by and tonumber(bytes or '') then quotas.release('schemas', by, names.room_of(full), tonumber(bytes)) end
  redis.call('DEL', keys.job(full), keys.limit_groups(full), keys.limited(full), keys.limit_backlog(full),
    keys.limit_old(full), keys.limit_running(full))
end

-- Update the mean run time of a job after `count` of its tasks have ended, which ran for `us` microseconds together: each task weighs a
-- tenth against the mean before.
function jobs.ran(full, count, us)
  local job = redis.call('HMGET', keys.job(full), 'id', 'run_us')
  if not job[1] then return end
  local mean = us / count
  if job[2] then mean = mean + (job[2] - mean) * 0.9 ^ count end
  redis.call('HSET', keys.job(full), 'run_us', numbers.digits(math.floor(mean)))
end

return jobs

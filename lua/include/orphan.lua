-- @include emit
-- @include history
-- Soft-delete a job that nobody serves and nothing waits for. Claimed and running tasks do not keep it.
local function check_orphan(full)
  if string.sub(full, 1, 10) == '@internal:' then return end
  if redis.call('EXISTS', key_job_workers(full), key_queue(full)) > 0 then return end
  local job = redis.call('HMGET', key_job(full), 'at', 'deleted', 'later')
  if not job[1] or job[2] or tonumber(job[3] or '0') > 0 then return end
  redis.call('HSET', key_job(full), 'deleted', digits(now_us))
  redis.call('ZADD', key_deleted_jobs, now_us, full)
  redis.call('ZREM', key_room_jobs(room_of(full)), full)
  note('job.orphaned', 'job', full)
  emit_jobs(room_of(full))
end

-- Take a soft-deleted job back: it keeps its id and its place in the lists.
local function revive(full)
  if redis.call('HDEL', key_job(full), 'deleted') == 0 then return false end
  redis.call('ZREM', key_deleted_jobs, full)
  redis.call('ZADD', key_room_jobs(room_of(full)), redis.call('HGET', key_job(full), 'at'), full)
  return true
end

-- Forget tasks that ended long ago, everywhere at once, and then jobs that were soft-deleted long ago and have none left.
-- Safe to repeat. Returns {'ok', tasks, jobs, 1 | 0 (there may be more)}
local keep_us = tonumber(ARGV[1])
local limit   = tonumber(ARGV[2])
-- @include task
local before = '(' .. digits(now_us - keep_us)
local old = redis.call('ZRANGE', key_finished, '-inf', before, 'BYSCORE', 'LIMIT', 0, limit)
for _, id in ipairs(old) do
  local t = read_task(id)
  if t then
    unlist(t, t.status)
    redis.call('HINCRBY', key_job(t.job), 'tasks', -1)
  end
  redis.call('DEL', key_task(id), key_payload(id))
  redis.call('ZREM', key_finished, id)
  redis.call('ZREM', key_dead, id)
end
local jobs = redis.call('ZRANGE', key_deleted_jobs, '-inf', before, 'BYSCORE', 'LIMIT', 0, limit)
local gone = 0
for _, full in ipairs(jobs) do
  local job = redis.call('HMGET', key_job(full), 'deleted', 'tasks')
  if job[1] and tonumber(job[2] or '0') <= 0 then
    redis.call('DEL', key_job(full))
    redis.call('ZREM', key_deleted_jobs, full)
    gone = gone + 1
  else
    -- Its tasks go later; so does it.
    redis.call('ZADD', key_deleted_jobs, 'XX', now_us, full)
  end
end
return {'ok', #old, gone, (#old == limit or gone == limit) and 1 or 0}

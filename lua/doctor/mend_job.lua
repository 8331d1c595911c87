-- List a job as what it is, and take one back that is soft-deleted and serves somebody. A record that says too little becomes
-- that of a soft-deleted job, for whoever registers it and for its tasks to be forgotten; but not while workers or tasks
-- need its schema: that nobody knows. Its queue is found by its first task again. Safe to repeat. Returns {'ok' | 'left'}
local full = ARGV[1]
local new  = ARGV[2]                 -- an id, should it have none
-- @include orphan
-- @include queue
set_head(full)
local id, at, schema, deleted, later = unpack(redis.call('HMGET', key_job(full), 'id', 'at', 'schema', 'deleted', 'later'))
local served = redis.call('EXISTS', key_job_workers(full), key_queue(full)) > 0 or tonumber(later or '0') > 0
if not (id and at and schema) then
  if served then return {'left'} end
  at = at or digits(next_us())
  redis.call('HSET', key_job(full), 'id', id or new, 'at', at, 'schema', '{}', 'digest', '', 'deleted', digits(now_us))
  redis.call('ZADD', key_deleted_jobs, now_us, full)
  redis.call('ZREM', key_room_jobs(room_of(full)), full)
elseif deleted and served then
  revive(full)
  emit_jobs(room_of(full))
elseif deleted then
  redis.call('ZADD', key_deleted_jobs, deleted, full)
else
  redis.call('ZADD', key_room_jobs(room_of(full)), at, full)
end
return {'ok'}

-- Register an @internal job from configuration, whatever schema it had, and note that somebody executes it. Safe to repeat.
-- Returns {'ok'}
local full   = ARGV[1]
local id     = ARGV[2]               -- for a job that is new
local schema = ARGV[3]
local digest = ARGV[4]
-- @include orphan
if redis.call('EXISTS', key_job(full)) == 0 then
  local at = digits(next_us())
  redis.call('HSET', key_job(full), 'id', id, 'at', at)
  redis.call('ZADD', key_room_jobs(room_of(full)), at, full)
end
revive(full)
redis.call('HSET', key_job(full), 'schema', schema, 'digest', digest)
redis.call('SADD', key_executors, full)
emit_jobs(room_of(full))
return {'ok'}

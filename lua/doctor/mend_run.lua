-- Count the waiters of a run again. Safe to repeat. Returns {'ok'}
local run = ARGV[1]
-- @include waiters_of
local waiters = waiters_of(run)
if waiters == 0 then redis.call('HDEL', key_pending, run) end
if waiters and waiters > 0 then redis.call('HSET', key_pending, run, waiters) end
return {'ok'}

-- Fail the tasks that a removed worker still holds, some at a time. Returns {'ok', how many are left}
local worker = ARGV[1]
local limit  = tonumber(ARGV[2])
-- @include remove_worker
if redis.call('EXISTS', key_worker(worker)) == 1 then return {'ok', 0} end
return {'ok', fail_tasks(worker, limit)}

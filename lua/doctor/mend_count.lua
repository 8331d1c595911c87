-- Write down how many tasks a job has and how many are put off, as they were counted while the old numbers stood there; if
-- they do not any more, somebody changed them meanwhile. Safe to repeat. Returns {'ok' | 'changed'}
local full      = ARGV[1]
local tasks     = ARGV[2]
local later     = ARGV[3]
local was_tasks = ARGV[4]
local was_later = ARGV[5]
-- @include orphan
local now = redis.call('HMGET', key_job(full), 'tasks', 'later', 'id')
if not now[3] or (now[1] or '0') ~= was_tasks or (now[2] or '0') ~= was_later then return {'changed'} end
redis.call('HSET', key_job(full), 'tasks', tasks, 'later', later)
check_orphan(full)
return {'ok'}

-- Say again what a worker reported, or how a task was cancelled, to a store that may have lost it. An end is for good,
-- whatever the store let happen since; that a claim failed or was given back counts only where no later one is known.
-- Safe to repeat. Returns {'recalled'} | {'known'} | {'newer'} (than what is said) | {'task'} (unknown)
local id      = ARGV[1]
local status  = ARGV[2]              -- completed | failed | cancelled | pending
local error   = ARGV[3]
local claim   = ARGV[4]              -- '' where it is not known, or there was none
local request = ARGV[5]
local worker  = ARGV[6]              -- '' where it is not known, or there was none
-- @include settle_task
local t = read_task(id)
if not t then return {'task'} end
local waits, held = t.status == 'pending', t.status == 'claimed' or t.status == 'running'
if not (waits or held) or was_heard(t, request) then return {'known'} end
local again = status == 'failed' and t.max and tonumber(t.attempt or '1') < tonumber(t.max)
if again or status == 'pending' then
  if claim == '' or tonumber(t.claim or '0') > tonumber(claim) then return {'newer'} end
  if waits and not again then return {'known'} end
  if waits then
    unqueue(t)
    if redis.call('ZREM', key_later, id) == 1 then redis.call('HINCRBY', key_job(t.job), 'later', -1) end
  end
end
note('task.recalled', 'task', id, 'job', t.job, 'why', status)
if tonumber(claim ~= '' and claim or '0') > tonumber(t.claim or '0') then redis.call('HSET', key_task(id), 'claim', claim) end
if waits and worker ~= '' and not again then
  redis.call('HSET', key_task(id), 'worker', worker)
  t.worker = worker
end
if again then fail(t, error, request)
elseif status == 'pending' then give_back(t, request)
else close(t, status, error, request) end
check_orphan(t.job)
return {'recalled'}

-- Move a task to another status, for its worker's owner, a superuser, or, to cancel it, whoever submitted it.
-- Safe to repeat: the request that made the last move gets the same answer. What names a claim is about no other one.
-- Returns {'ok', task} | {'task'} (unknown) | {'forbidden'} | {'conflict', status}
local id        = ARGV[1]
local status    = ARGV[2]
local error     = ARGV[3]
local user      = ARGV[4]
local superuser = ARGV[5]            -- '1' | '0'
local request   = ARGV[6]
local claim     = ARGV[7]            -- '' where it names none
-- @include settle_task
-- @include task_reply
local t = read_task(id)
if not t then return {'task'} end
request = request .. ':' .. status
if was_heard(t, request) then return {'ok', task_reply(t)} end  -- whoever has the task by now
if claim ~= '' and claim ~= t.claim then return {'conflict', t.status} end
local owner = t.worker and redis.call('HGET', key_worker(t.worker), 'user')
if superuser ~= '1' and owner ~= user and not (status == 'cancelled' and t.user == user) then
  -- A worker from which it was taken back, and which does not know that yet, has done nothing that is forbidden.
  local late = status ~= 'claimed' and status ~= 'cancelled' and redis.call('HGET', key_task(id), 'had') == user
  return late and {'conflict', t.status} or {'forbidden'}
end
local allowed = {
  pending = {claimed = true, cancelled = true},
  claimed = {running = true, failed = true, cancelled = true},
  running = {completed = true, failed = true, cancelled = true},
}
if not (allowed[t.status] and allowed[t.status][status]) then return {'conflict', t.status} end

if status == 'claimed' then
  unqueue(t)
  if redis.call('ZREM', key_later, id) == 1 then redis.call('HINCRBY', key_job(t.job), 'later', -1) end
  relist(t, status)
  redis.call('HDEL', key_task(id), 'due')
  redis.call('HSET', key_task(id), 'status', status, 'last', request)
  redis.call('ZADD', is_internal(t.job) and key_internal_tasks or key_ownerless, clock_ms, id)
  t.due = nil
  emit_status(t)
elseif status == 'running' then
  relist(t, status)
  t.started = digits(now_us)
  redis.call('HSET', key_task(id), 'status', status, 'started', t.started, 'last', request)
  if is_internal(t.job) then redis.call('ZADD', key_internal_tasks, clock_ms, id) end
  emit_status(t)
elseif status == 'failed' then
  fail(t, error, request)
  check_orphan(t.job)
else
  close(t, status, error, request)
  check_orphan(t.job)
end
return {'ok', task_reply(t)}

-- Submit a task to an @internal job: it is claimed from the start, and its message for the executors goes into the stream
-- in the same step, so nobody can ask to run what is not claimed yet. Where the stream takes nothing the task has failed.
-- Safe to repeat: a task that exists is answered as it is, and there is no second message.
-- Returns {'ok', task} | {'failed', task, why} | {'job'} (no such active job) | {'executor'} (nobody executes it, and
-- nothing was stored) | {'reused'} (the key came with another request)
local full    = ARGV[1]
local room    = ARGV[2]
local user    = ARGV[3]
local id      = ARGV[4]
local payload = ARGV[5]
local message = ARGV[6]              -- '' when none could be made of the payload
local key     = ARGV[7]              -- of the request, '' for none
local fingerprint = ARGV[8]
local keep_s  = ARGV[9]              -- how long a key is remembered: no longer than its task
-- @include recalled
-- @include task_reply
local before = key ~= '' and redis.call('GET', key_submitted(key))
if before and before ~= fingerprint then return {'reused'} end
local t = read_task(id)
if t then return {'ok', task_reply(t)} end
local job = redis.call('HMGET', key_job(full), 'at', 'deleted')
if not job[1] or job[2] then return {'job'} end
if redis.call('SISMEMBER', key_executors, full) == 0 then return {'executor'} end

if key ~= '' and not before then redis.call('SET', key_submitted(key), fingerprint, 'EX', keep_s) end
t = {id = id, job = full, room = room, user = user, status = 'claimed', at = digits(next_us())}
redis.call('HSET', key_task(id), 'job', full, 'room', room, 'user', user, 'at', t.at, 'status', 'claimed')
if payload ~= '{}' then redis.call('SET', key_payload(id), payload) end
redis.call('HINCRBY', key_job(full), 'tasks', 1)
list_under(t, 'claimed')
redis.call('ZADD', key_internal_tasks, clock_ms, id)
local entry = message ~= '' and redis.pcall('XADD', key_taskiq, '*', 'data', message)
if type(entry) == 'string' then
  redis.call('HSET', key_task(id), 'entry', entry)
  emit_status(t)
  if recall_early_ends(id) then t = read_task(id) end
  return {'ok', task_reply(t)}
end
close(t, 'failed', 'Failed to dispatch to internal executor', id)
return {'failed', task_reply(t), entry and entry.err or ''}

-- Submit tasks to a job that is served by workers: one per id and payload, pending at once or put off until they are due.
-- Safe to repeat: a task that exists is answered as it is.
-- Returns {'ok', task, ...} | {'job'} (no such active job) | {'reused'} (the key came with another request)
local full       = ARGV[1]
local room       = ARGV[2]
local user       = ARGV[3]
local priority   = ARGV[4]            -- seconds ahead in the queue
local due_us     = ARGV[5]            -- not before this time, '0' at once
local attempts   = ARGV[6]
local backoff_ms = ARGV[7]
local key        = ARGV[8]            -- of the request, '' for none
local fingerprint = ARGV[9]           -- of the request
local keep_s     = ARGV[10]           -- how long a key is remembered: no longer than its tasks
-- @rest tasks                        per task: id, payload
-- @include recalled
-- @include task_reply
local job = redis.call('HMGET', key_job(full), 'at', 'deleted')
if not job[1] then return {'job'} end
local before = key ~= '' and redis.call('GET', key_submitted(key))
if before and before ~= fingerprint then return {'reused'} end
if job[2] and not before then return {'job'} end
if key ~= '' and not before then redis.call('SET', key_submitted(key), fingerprint, 'EX', keep_s) end
local put_off_us = tonumber(due_us) > now_us and tonumber(due_us) or nil
local answers, made = {'ok'}, 0
local function make(id, payload)
  local t = {id = id, job = full, room = room, user = user, status = 'pending', at = digits(next_us())}
  redis.call('HSET', key_task(id), 'job', full, 'room', room, 'user', user, 'at', t.at, 'status', 'pending')
  if payload ~= '{}' then redis.call('SET', key_payload(id), payload) end
  if priority ~= '0' then
    t.prio = priority
    redis.call('HSET', key_task(id), 'prio', priority)
  end
  if attempts ~= '1' then
    t.max, t.attempt = attempts, '1'
    redis.call('HSET', key_task(id), 'attempt', '1', 'max', attempts, 'backoff_ms', backoff_ms)
  end
  list_under(t, 'pending')
  if put_off_us then put_off(t, put_off_us) else queue_up(t) end
  t.position = position_of(t)
  emit_status(t)
  if t.position then emit_available(t) end
  made = made + 1
  return t
end
for i = 11, #ARGV, 2 do
  local t = read_task(ARGV[i])
  if not t then
    if job[2] then return {'job'} end
    t = make(ARGV[i], ARGV[i + 1])
    if recall_early_ends(t.id) then t = read_task(t.id) end
  end
  answers[#answers + 1] = task_reply(t)
end
if made > 0 then redis.call('HINCRBY', key_job(full), 'tasks', made) end
return answers

-- Submit tasks to a job that is served by workers: one per id and payload, pending at once or put off until they are due.
-- Safe to repeat: a task that exists is answered as it is.
-- Returns {'ok', task, ...} | {'job'} (no such active job) | {'reused'} (the key came with another request)
command.change('tasks/submit', {
  'full',
  'room',
  'user',
  'priority',     -- seconds ahead in the queue
  'due_us',       -- not before this time, '0' at once
  'attempts',     -- '' for as many as the job says, and its back-off
  'backoff_ms',
  'silence_ms',   -- how long it may say nothing while it runs, '0' for ever
  'key',          -- of the request, '' for none
  'fingerprint',  -- of the request
  'keep_s',       -- how long a key is remembered: no longer than its tasks
  '...tasks',     -- per task: id, payload
}, function(a, argv)
  local job = redis.call('HMGET', keys.job(a.full), 'at', 'deleted', 'attempts', 'backoff_ms')
  if not job[1] then return {'job'} end
  local before = a.key ~= '' and redis.call('GET', keys.submitted(a.key))
  if before and before ~= a.fingerprint then return {'reused'} end
  if job[2] and not before then return {'job'} end
  if a.key ~= '' and not before then redis.call('SET', keys.submitted(a.key), a.fingerprint, 'EX', a.keep_s) end
  if a.attempts == '' then a.attempts, a.backoff_ms = job[3] or '1', job[4] or a.backoff_ms end
  local put_off_us = tonumber(a.due_us) > store.now_us and tonumber(a.due_us) or nil
  local answers, made = {'ok'}, 0
  local function make(id, payload)
    local t = {id = id, job = a.full, room = a.room, user = a.user, status = 'pending', at = numbers.digits(store.next_us())}
    redis.call('HSET', keys.task(id), 'job', a.full, 'room', a.room, 'user', a.user, 'at', t.at, 'status', 'pending')
    if payload ~= '{}' then redis.call('SET', keys.payload(id), payload) end
    if a.priority ~= '0' then
      t.prio = a.priority
      redis.call('HSET', keys.task(id), 'prio', a.priority)
    end
    if a.attempts ~= '1' then
      t.max, t.attempt = a.attempts, '1'
      redis.call('HSET', keys.task(id), 'attempt', '1', 'max', a.attempts, 'backoff_ms', a.backoff_ms)
    end
    if a.silence_ms ~= '0' then redis.call('HSET', keys.task(id), 'silence', a.silence_ms) end
    tasks.list_under(t, 'pending')
    if put_off_us then job_queue.put_off(t, put_off_us) else job_queue.enter(t) end
    t.position = job_queue.position_of(t)
    events.status(t)
    if t.position then events.available(t) end
    made = made + 1
    return t
  end
  for i = 12, #argv, 2 do
    local t = tasks.read(argv[i])
    if not t then
      if job[2] then return {'job'} end
      t = make(argv[i], argv[i + 1])
      if recalls.end_made(t.id) then t = tasks.read(t.id) end
    end
    answers[#answers + 1] = job_queue.task_reply(t)
  end
  if made > 0 then redis.call('HINCRBY', keys.job(a.full), 'tasks', made) end
  return answers
end)

-- Submit a task to an @internal job: it is claimed from the start, and its message for the executors is added to the stream in the same
-- step, so that no executor runs a task that is not claimed yet. The task fails where the stream takes no message. Safe to repeat: a
-- task that exists is answered as it is, without a second message.
-- Returns {'ok', task} as `job_queue.task_reply` returns it | {'failed', task, why} | {'job'} (no such active job) | {'executor'} (no
--   executor runs the job; nothing was stored) | {'reused'} (the key came with another request before) | {'quota', ...} (as
--   `quotas.take` returns it)
command.add('tasks/submit_internal', {
  'full',         -- full name of the job
  'room',         -- the room of the task
  'user',         -- the calling user
  'id',           -- id of the task
  'payload',
  'message',      -- for the stream; '' where none could be made of the payload
  'key',          -- idempotency key of the request, '' for none
  'fingerprint',  -- digest of the request
  'keep_s',       -- for how many seconds the key is kept: no longer than its task
  'told',         -- '1': a hub repeats the call to a store that may have lost it
  'later: number',  -- bytes that further calls of the same request will add, -1 in such a call
}, function(a)
  local before = a.key ~= '' and redis.call('GET', keys.submitted(a.key))
  if before and before ~= a.fingerprint then return {'reused'} end
  local t = tasks.read(a.id)
  if t then return {'ok', job_queue.task_reply(t)} end
  local job = redis.call('HMGET', keys.job(a.full), 'at', 'deleted')
  if not job[1] or job[2] then return {'job'} end
  if redis.call('SISMEMBER', keys.executors, a.full) == 0 then return {'executor'} end

  local bytes, how = #a.payload + quotas.EACH, {is_free = a.told == '1' or a.later < 0, later = a.later}
  local refusal = quotas.take('tasks', a.user, a.room, bytes, how)
  if not refusal and a.key ~= '' and not before and not how.is_free then
    refusal = quotas.note('keys', a.user, 86400)
    if refusal then quotas.release('tasks', a.user, a.room, bytes) end
  end
  if refusal then return refusal end
  if a.key ~= '' and not before then redis.call('SET', keys.submitted(a.key), a.fingerprint, 'EX', a.keep_s) end
  t = {id = a.id, job = a.full, room = a.room, user = a.user, status = 'claimed', at = numbers.digits(store.next_us()),
    bytes = numbers.whole(bytes)}
  redis.call('HSET', keys.task(a.id), 'job', a.full, 'room', a.room, 'user', a.user, 'at', t.at, 'status', 'claimed',
    'bytes', t.bytes)
  if a.payload ~= '{}' then redis.call('SET', keys.payload(a.id), a.payload) end
  redis.call('HINCRBY', keys.job(a.full), 'tasks', 1)
  tasks.list_under(t, 'claimed')
  redis.call('ZADD', keys.internal_tasks, store.clock_ms, a.id)
  local entry = a.message ~= '' and redis.pcall('XADD', keys.taskiq, '*', 'data', a.message)
  if type(entry) == 'string' then
    redis.call('HSET', keys.task(a.id), 'entry', entry)
    events.status(t)
    if recalls.end_made(a.id) then t = tasks.read(a.id) end
    return {'ok', job_queue.task_reply(t)}
  end
  outcomes.close(t, 'failed', 'Failed to dispatch to internal executor', a.id)
  return {'failed', job_queue.task_reply(t), entry and entry.err or ''}
end)

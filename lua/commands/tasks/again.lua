-- Submit a failed or cancelled task anew, as another task; the old one leaves the dead-letter list. Safe to repeat.
-- Returns {'ok', task} | {'task'} (unknown) | {'forbidden'} | {'conflict', status} | {'job', name} (not active)
command.change('tasks/again', {
  'id',
  'new',
  'user',
  'superuser',  -- '1' | '0'
}, function(a)
  local old = tasks.read(a.id)
  if not old then return {'task'} end
  if a.superuser ~= '1' and old.user ~= a.user then return {'forbidden'} end
  local made = tasks.read(a.new)
  if made then return {'ok', job_queue.task_reply(made)} end
  if old.status ~= 'failed' and old.status ~= 'cancelled' then return {'conflict', old.status} end
  local job = redis.call('HMGET', keys.job(old.job), 'at', 'deleted')
  if not job[1] or job[2] or names.is_internal(old.job) then return {'job', old.job} end

  local t = {id = a.new, job = old.job, room = old.room, user = a.user, status = 'pending',
    at = numbers.digits(store.next_us()), prio = old.prio}
  redis.call('HSET', keys.task(a.new), 'job', t.job, 'room', t.room, 'user', a.user, 'at', t.at, 'status', 'pending')
  if old.prio then redis.call('HSET', keys.task(a.new), 'prio', old.prio) end
  if old.max then
    t.max, t.attempt = old.max, '1'
    redis.call('HSET', keys.task(a.new), 'attempt', '1', 'max', old.max, 'backoff_ms', old.backoff_ms)
  end
  if old.silence then redis.call('HSET', keys.task(a.new), 'silence', old.silence) end
  local payload = redis.call('GET', keys.payload(a.id))
  if payload then redis.call('SET', keys.payload(a.new), payload) end
  redis.call('ZREM', keys.dead, a.id)
  redis.call('HINCRBY', keys.job(t.job), 'tasks', 1)
  tasks.list_under(t, 'pending')
  job_queue.enter(t)
  t.position = job_queue.position_of(t)
  events.status(t)
  events.available(t)
  if recalls.end_made(a.new) then t = tasks.read(a.new) end
  return {'ok', job_queue.task_reply(t)}
end)

-- Submit a failed or cancelled task again, as a new task; the old one leaves the list of dead letters. Safe to repeat.
-- Returns {'ok', task} as `job_queue.task_reply` returns it | {'task'} (unknown) | {'forbidden'} (another user's) | {'conflict',
--   status} | {'job', name} (the job is not active, or @internal) | {'quota', ...} (as `quotas.take` returns it)
command.add('tasks/again', {
  'id',         -- the id of the failed or cancelled task
  'new',        -- the id of the new task
  'user',       -- the calling user
  'superuser',  -- '1' | '0'
  'told',       -- '1': a hub repeats the call to a store that may have lost it
}, function(a)
  local old = tasks.read(a.id)
  if not old then return {'task'} end
  if a.superuser ~= '1' and old.user ~= a.user then return {'forbidden'} end
  local made = tasks.read(a.new)
  if made then return {'ok', job_queue.task_reply(made)} end
  if old.status ~= 'failed' and old.status ~= 'cancelled' then return {'conflict', old.status} end
  local job = redis.call('HMGET', keys.job(old.job), 'at', 'deleted')
  if not job[1] or job[2] or names.is_internal(old.job) then return {'job', old.job} end
  local payload = redis.call('GET', keys.payload(a.id)) or '{}'
  local refusal = quotas.take('tasks', a.user, old.room, #payload + quotas.EACH, {is_free = a.told == '1'})
  if refusal then return refusal end

  redis.call('ZREM', keys.dead, a.id)
  redis.call('HINCRBY', keys.job(old.job), 'tasks', 1)
  local t = submissions.make({id = a.new, job = old.job, room = old.room, user = a.user, prio = old.prio, max = old.max,
    backoff_ms = old.max and old.backoff_ms, silence = old.silence,
    bytes = numbers.whole(#payload + quotas.EACH)}, payload)
  return {'ok', job_queue.task_reply(t)}
end)

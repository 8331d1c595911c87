-- Make or change a schedule; a schedule stays with the user who made it. Safe to repeat: a schedule whose times stay the same stays due
-- when it was, unless it was put aside. Only a superuser replaces a key that no hub wrote.
-- Returns {'made' | 'changed', {field, ...}} as `schedules.reply` returns them | {'job'} (no such active job) | {'forbidden'} (another
--   user's) | {'full'} (there are as many schedules as allowed) | {'quota', ...} (as `quotas.take` returns it)
command.add('schedules/put', {
  'room',
  'name',
  'user',          -- the calling user
  'superuser',     -- '1' | '0'
  'job',
  'payload',
  'cron',          -- '' for a schedule with an interval
  'every_ms',      -- '' for a schedule with a cron expression
  'zone',          -- time zone of the cron expression
  'catch_up',      -- which missed times are caught up: skip | one | all
  'paused',        -- '1' | '0'
  'priority',      -- of its tasks, in seconds ahead in the queue
  'attempts',      -- '' for the attempts and the back-off of the job
  'backoff_ms',
  'silence_ms',    -- how long its tasks may be silent while they run, '0' for any time
  'unique',        -- in the form of tasks/submit
  'due_us',        -- when it is due next, '' for never
  'most: number',  -- most schedules of the store
}, function(a)
  local id = a.room .. ':' .. a.name
  local job = redis.call('HMGET', keys.job(a.job), 'at', 'deleted')
  if not job[1] or job[2] then return {'job'} end
  local old = schedules.read(id)
  if old and not schedules.is_of(old, a.user, a.superuser) then return {'forbidden'} end
  if not old and redis.call('ZCARD', keys.schedules) >= a.most then return {'full'} end
  local is_foreign = old and old.foreign
  if is_foreign then old = nil end
  local owner, bytes = old and old.user or a.user, #a.payload + quotas.EACH
  local refusal = quotas.take('schedules', owner, a.room, old and old.bytes and 0 or 1, {})
  if refusal then return refusal end
  refusal = quotas.take('tasks', owner, a.room, bytes - (old and tonumber(old.bytes) or 0), {})
  if refusal then
    if not (old and old.bytes) then quotas.release('schedules', owner, a.room, 1) end
    return refusal
  end
  if is_foreign then redis.call('DEL', keys.schedule(id)) end
  local stays = old and not old.broken and old.cron == a.cron and old.every_ms == a.every_ms and old.zone == a.zone
    and old.paused == a.paused
  local at = old and string.match(old.at or '', '^%d+$') or numbers.digits(store.next_us())
  redis.call('HSET', keys.schedule(id), 'room', a.room, 'name', a.name, 'user', owner, 'at', at,
    'job', a.job, 'payload', a.payload, 'cron', a.cron, 'every_ms', a.every_ms, 'zone', a.zone, 'catch_up', a.catch_up,
    'paused', a.paused, 'due', stays and old.due or a.due_us, 'prio', a.priority, 'max', a.attempts, 'backoff_ms', a.backoff_ms,
    'silence', a.silence_ms, 'unique', a.unique, 'bytes', numbers.whole(bytes))
  redis.call('ZADD', keys.room_schedules(a.room), at, a.name)
  local s = schedules.read(id)
  schedules.bring_back(s)
  schedules.stand(s)
  if not old then
    history.note('schedule.made', 'schedule', id, 'job', s.job)
  elseif schedules.differs(old, s) then
    local why = old.paused == s.paused and '' or s.paused == '1' and 'paused' or 'resumed'
    history.note('schedule.changed', 'schedule', id, 'job', s.job, 'why', why)
  end
  return {old and 'changed' or 'made', schedules.reply(s)}
end)

-- Submit the tasks of a schedule that is due, and store when it is due next. Safe to repeat, and for several hubs at once: a schedule
-- that is due at another time by now was fired by another hub. A task whose id is known was made before a loss.
-- Returns {'moved'} (gone, paused, changed or fired since) | {'ok', tasks made, why there are not more: '' | 'no-job' (no active job) |
--   'unique' (another task has the unique key) | 'missed' (too late for all) | 'quota'}
command.add('schedules/fire', {
  'schedule',    -- room:name
  'due_us',      -- when it was due, in microseconds, as the hub read it
  'plan',        -- the rule of its times, as `schedules.plan_of` returns it
  'next_us',     -- when it is due next, '' for never
  '...firings',  -- per task: id, when it was due; none where all were missed
}, function(a, argv)
  local s = schedules.read(a.schedule)
  if not s or s.paused == '1' or s.due ~= a.due_us or schedules.plan_of(s) ~= a.plan then return {'moved'} end
  local job = redis.call('HMGET', keys.job(s.job), 'at', 'deleted', 'attempts', 'backoff_ms')
  local made, why = 0, argv[5] and '' or 'missed'
  local max, backoff_ms = s.max or '', s.backoff_ms
  if max == '' then max, backoff_ms = job[3] or '1', job[4] or backoff_ms end
  local unique = s.unique ~= '' and s.unique or nil
  local function make(id)
    if tasks.read(id) then return end
    if unique and uniques.find(unique) then
      why = 'unique'
      return
    end
    local bytes = #s.payload + quotas.EACH
    if quotas.take('tasks', s.user, s.room, bytes, {}) then
      why = 'quota'
      return
    end
    submissions.make({id = id, job = s.job, room = s.room, user = s.user, prio = s.prio ~= '0' and s.prio or nil,
      max = max ~= '1' and max or nil, backoff_ms = max ~= '1' and backoff_ms or nil,
      silence = s.silence ~= '0' and s.silence or nil, unique = unique,
      bytes = numbers.whole(bytes)}, s.payload)
    history.note('task.scheduled', 'task', id, 'job', s.job, 'schedule', s.id)
    redis.call('HSET', keys.schedule(s.id), 'task', id)
    made = made + 1
  end
  if argv[5] and (not job[1] or job[2]) then
    why = 'no-job'
  else
    for i = 5, #argv, 2 do make(argv[i]) end
  end
  if made > 0 then
    redis.call('HINCRBY', keys.job(s.job), 'tasks', made)
    redis.call('HINCRBY', keys.schedule(s.id), 'fired', made)
    redis.call('HSET', keys.schedule(s.id), 'last', argv[#argv])
  end
  s.due = a.next_us
  redis.call('HSET', keys.schedule(s.id), 'due', s.due, 'why', why)
  if s.broken then history.note('schedule.changed', 'schedule', s.id, 'job', s.job, 'why', 'readable') end
  schedules.bring_back(s)
  schedules.stand(s)
  return {'ok', made, why}
end)

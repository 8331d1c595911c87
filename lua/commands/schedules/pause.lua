-- Pause a schedule, or resume it: what it missed meanwhile is not caught up. Safe to repeat.
-- Returns {'ok', {field, ...}} as `schedules.reply` returns them | {'schedule'} (unknown, or no hub wrote it) | {'forbidden'} (another
--   user's) | {'moved'} (its times follow from another rule by now)
command.change('schedules/pause', {
  'schedule',   -- room:name
  'user',       -- the calling user
  'superuser',  -- '1' | '0'
  'paused',     -- '1': pause, '0': resume
  'plan',       -- the rule of its times, as the hub read it
  'due_us',     -- when it is due next, '' for never
}, function(a)
  local s = schedules.read(a.schedule)
  if not s or s.foreign then return {'schedule'} end
  if not schedules.is_of(s, a.user, a.superuser) then return {'forbidden'} end
  if s.paused ~= a.paused then
    if schedules.plan_of(s) ~= a.plan then return {'moved'} end
    s.paused, s.due = a.paused, a.due_us
    redis.call('HSET', keys.schedule(s.id), 'paused', s.paused, 'due', s.due)
    if s.again then redis.call('HDEL', keys.schedule(s.id), 'again') end  -- looked at when it is resumed
    s.again = nil
    schedules.stand(s)
    history.note('schedule.changed', 'schedule', s.id, 'job', s.job, 'why', s.paused == '1' and 'paused' or 'resumed')
  end
  return {'ok', schedules.reply(s)}
end)

-- Put a schedule aside that cannot be read or fired, so that it keeps back no other one; it is looked at again later. The history says
-- so once for each reason. An id without a record is taken off the list. Safe to repeat.
-- Returns {'moved'} (it was changed, fired or paused since) | {'gone'} (it has no record) | {'ok', 1 | 0 (1: it was not put aside for
--   this reason before)}
command.change('schedules/put_aside', {
  'schedule',  -- room:name
  'due_us',    -- when it was due, in microseconds, as the hub read it
  'plan',      -- the rule of its times, as the hub read it
  'why',       -- the reason, as text
  'again_us',  -- when it is looked at again, in microseconds
}, function(a)
  local s = schedules.read(a.schedule)
  if not s then
    redis.call('ZREM', keys.schedules, a.schedule)
    return {'gone'}
  end
  if s.paused == '1' or (s.due or '') ~= a.due_us or schedules.plan_of(s) ~= a.plan then return {'moved'} end
  local is_new = s.broken ~= a.why
  s.broken, s.again = a.why, a.again_us
  if not s.foreign then redis.call('HSET', keys.schedule(s.id), 'broken', s.broken, 'again', s.again) end
  schedules.stand(s)
  if is_new then history.note('schedule.broken', 'schedule', s.id, 'job', s.job or '', 'why', s.broken) end
  return {'ok', is_new and 1 or 0}
end)

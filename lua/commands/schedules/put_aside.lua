-- Put a schedule aside that cannot be read or fired: it is looked at again later, and stands in the way of no other. Its
-- history says so once for each reason. What has no record leaves the schedules. Safe to repeat.
-- Returns {'moved'} (it is another by now, or paused) | {'gone'} | {'ok', 1 | 0 (it was put aside for this before)}
command.change('schedules/put_aside', {
  'schedule',
  'due_us',     -- when it was due, as the hub has read it
  'plan',       -- and what its times follow from
  'why',
  'again_us',   -- when it is to be looked at again
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

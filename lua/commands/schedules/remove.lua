-- Remove a schedule; the tasks that it has made stay. Returns {'ok'} | {'schedule'} (unknown) | {'forbidden'} (another user's)
command.finish('schedules/remove', {
  'schedule',   -- room:name
  'user',       -- the calling user
  'superuser',  -- '1' | '0'
}, function(a)
  local s = schedules.read(a.schedule)
  if not s then return {'schedule'} end
  if not schedules.is_of(s, a.user, a.superuser) then return {'forbidden'} end
  quotas.release_schedule(s)
  redis.call('DEL', keys.schedule(s.id))
  redis.call('ZREM', keys.schedules, s.id)
  redis.call('ZREM', keys.room_schedules(s.room), s.name)
  history.note('schedule.removed', 'schedule', s.id, 'job', s.job or '')
  return {'ok'}
end)

-- List a schedule where it belongs; a record that says too little is dropped. Safe to repeat. Returns {'ok'}
command.change('doctor/repair_schedule', {
  'schedule',
}, function(a)
  local s = schedules.read(a.schedule)
  if s and schedules.is_whole(s) then
    schedules.stand(s)
    redis.call('ZADD', keys.room_schedules(s.room), s.at, s.name)
  else
    if s then quotas.release_schedule(s) end
    redis.call('DEL', keys.schedule(a.schedule))
    redis.call('ZREM', keys.schedules, a.schedule)
    local room, name = string.match(a.schedule, '^(.-):(.*)$')
    if room then redis.call('ZREM', keys.room_schedules(room), name) end
  end
  return {'ok'}
end)

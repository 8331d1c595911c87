-- Checks and repairs of schedules: each must stand where the sweeper finds it when it is due, and in the list of its room.
local doctor_schedules = {}

-- Check a schedule; `id` is room:name.
function doctor_schedules.check(say, _, id)
  local s = schedules.read(id)
  if not (s and schedules.is_whole(s)) then return say('record broken', redis.call('EXISTS', keys.schedule(id)) == 1) end
  say('not when it is due', redis.call('ZSCORE', keys.schedules, id) ~= schedules.place_of(s))
  say('unlisted', redis.call('ZSCORE', keys.room_schedules(s.room), s.name) ~= s.at)
end

-- List a schedule in both places; delete one whose record is incomplete.
function doctor_schedules.repair(id)
  local s = schedules.read(id)
  if s and schedules.is_whole(s) then
    schedules.stand(s)
    redis.call('ZADD', keys.room_schedules(s.room), s.at, s.name)
    return
  end
  if s then quotas.release_schedule(s) end
  redis.call('DEL', keys.schedule(id))
  redis.call('ZREM', keys.schedules, id)
  local room, name = string.match(id, '^(.-):(.*)$')
  if room then redis.call('ZREM', keys.room_schedules(room), name) end
end

return doctor_schedules

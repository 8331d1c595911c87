-- Schedules: their records, and when they are due.
local schedules = {}

local FIELDS = {'room', 'name', 'user', 'at', 'job', 'payload', 'cron', 'every_ms', 'zone', 'catch_up', 'paused', 'due', 'prio',
  'max', 'backoff_ms', 'silence', 'unique', 'last', 'task', 'fired', 'why', 'broken', 'again', 'bytes'}
local PLAN = {'at', 'cron', 'every_ms', 'zone', 'catch_up'}

-- Return a schedule of an id alone, for an id without a record. An id without a room is all name.
function schedules.named(id)
  local room, name = string.match(id, '^(.+):(.*)$')
  return {id = id, room = room or '', name = name or id}
end

-- Return the record of a schedule with its id; nil for none. Of a key that no hub wrote only the id is returned, and `foreign` is true.
function schedules.read(id)
  local values = lenient.fields(keys.schedule(id), unpack(FIELDS))
  if not values[1] or values[1] .. ':' .. (values[2] or '') ~= id then
    if redis.call('EXISTS', keys.schedule(id)) == 0 then return nil end
    local s = schedules.named(id)
    s.foreign = true
    return s
  end
  local s = {id = id}
  for i, name in ipairs(FIELDS) do s[name] = values[i] or nil end
  return s
end

-- Return a schedule as the hub reads it: the values of FIELDS in order, '' for what there is not.
function schedules.reply(s)
  local reply = {}
  for i, name in ipairs(FIELDS) do reply[i] = s[name] or '' end
  return reply
end

-- Put a schedule where the sweeper finds it when it is due, or, while it is put aside, when it is to be looked at again.
function schedules.stand(s) redis.call('ZADD', keys.schedules, schedules.place_of(s), s.id) end

-- Return the score of a schedule in hub:schedules, in microseconds as text; 'inf' for a schedule that is paused or never due again.
function schedules.place_of(s)
  if s.paused == '1' then return 'inf' end
  return string.match(s.again or '', '^%d+$') or string.match(s.due or '', '^%d+$') or 'inf'
end

-- Let a schedule that was put aside be found when it is due again.
function schedules.bring_back(s)
  if s.broken or s.again then redis.call('HDEL', keys.schedule(s.id), 'broken', 'again') end
  s.broken, s.again = nil, nil
end

-- Return the rule from which the times of a schedule follow, as text. A hub that works out times says from which rule it did: by now
-- another schedule may have the name.
function schedules.plan_of(s)
  local said = {}
  for i, name in ipairs(PLAN) do said[i] = s[name] or '' end
  return table.concat(said, '\n')
end

-- Fields that a firing changes: a change of them alone is no change of the schedule.
local FIRED = {due = true, last = true, task = true, fired = true, why = true, broken = true, again = true, bytes = true}

-- Return whether two readings of a schedule differ in more than what a firing changes.
function schedules.differs(before, after)
  for _, name in ipairs(FIELDS) do
    if not FIRED[name] and before[name] ~= after[name] then return true end
  end
  return false
end

-- Return whether the record of a schedule has all that a firing needs.
function schedules.is_whole(s)
  return not s.foreign and s.name and s.user and s.at and s.job and s.payload and s.cron and s.every_ms and s.zone
    and s.id == s.room .. ':' .. s.name
end

-- Return whether a user may change a schedule. A key that no hub wrote belongs to no user.
function schedules.is_of(s, user, superuser) return superuser == '1' or s.user == user end

return schedules

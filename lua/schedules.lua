-- Schedules: tasks that are submitted at certain times.
local schedules = {}

local FIELDS = {'room', 'name', 'user', 'at', 'job', 'payload', 'cron', 'every_ms', 'zone', 'catch_up', 'paused', 'due', 'prio',
  'max', 'backoff_ms', 'silence', 'unique', 'last', 'task', 'fired', 'why'}

-- The record, with its id; nil where there is none.
function schedules.read(id)
  local values = redis.call('HMGET', keys.schedule(id), unpack(FIELDS))
  if not values[1] then return nil end
  local s = {id = id}
  for i, name in ipairs(FIELDS) do s[name] = values[i] or nil end
  return s
end

-- As the hub reads it: the fields in order, '' where there is none.
function schedules.reply(s)
  local reply = {}
  for i, name in ipairs(FIELDS) do reply[i] = s[name] or '' end
  return reply
end

-- Stand where the sweeper finds it when it is due; one that is paused, or never due again, is not found.
function schedules.stand(s)
  local waits = s.paused ~= '1' and (s.due or '') ~= ''
  redis.call('ZADD', keys.schedules, waits and s.due or '+inf', s.id)
end

-- Whether a user may change it.
function schedules.is_of(s, user, superuser) return superuser == '1' or s.user == user end

return schedules

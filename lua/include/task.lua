-- @include emit
-- A task's record, and the lists of its room and of its job there, in which every task stands by its status.
local FIELDS = {'job', 'room', 'status', 'at', 'worker', 'started', 'done', 'error', 'user', 'attempt', 'max', 'prio', 'due',
  'backoff_ms', 'last', 'back', 'claim'}
local function read_task(id)
  local values = redis.call('HMGET', key_task(id), unpack(FIELDS))
  if not values[1] then return nil end
  local t = {id = id}
  for i, name in ipairs(FIELDS) do t[name] = values[i] or nil end
  return t
end

-- Whether a request was the last to move a task, or one of the latest to queue it again: then it has been heard.
local function was_heard(t, request)
  return t.last == request or (t.back and string.find('\n' .. t.back .. '\n', '\n' .. request .. '\n', 1, true) and true)
end

local function is_internal(full) return string.sub(full, 1, 10) == '@internal:' end

local function list_under(t, status)
  redis.call('ZADD', key_room_tasks(status .. ':' .. t.room), t.at, t.id)
  redis.call('ZADD', key_job_tasks(status .. ':' .. t.room .. ':' .. t.job), t.at, t.id)
end

local function unlist(t, status)
  redis.call('ZREM', key_room_tasks(status .. ':' .. t.room), t.id)
  redis.call('ZREM', key_job_tasks(status .. ':' .. t.room .. ':' .. t.job), t.id)
end

-- Change the status in the lists; `t.status` is the new one afterwards.
local function relist(t, status)
  unlist(t, t.status)
  list_under(t, status)
  t.status = status
end

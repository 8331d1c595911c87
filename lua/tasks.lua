-- Tasks: their records, and the lists in which they stand.
local tasks = {}

-- The fields of a task. By its status, each task is in one list of its room and in one of its job in that room.
local FIELDS = {'job', 'room', 'status', 'at', 'worker', 'started', 'done', 'error', 'user', 'attempt', 'max', 'prio', 'due',
  'backoff_ms', 'last', 'back', 'claim', 'silence', 'unique', 'after', 'followed', 'bytes'}

local NUMBERS = {'at', 'attempt', 'max', 'prio', 'due', 'backoff_ms', 'claim', 'silence', 'bytes'}

-- Return the record of a task; nil for none, and for a key that no hub wrote.
function tasks.read(id)
  local values = lenient.fields(keys.task(id), unpack(FIELDS))
  if not values[1] then return nil end
  local t = {id = id}
  for i, name in ipairs(FIELDS) do t[name] = values[i] or nil end
  local terms = store.job_terms and lenient.fields(keys.task(id), 'limited', 'slots')  -- reading a field that is not there costs most
  if terms then t.limited, t.slots = terms[1] or nil, terms[2] or nil end
  return lenient.are_numbers(t, NUMBERS) and t or nil
end

-- Return whether a request was the last to change the status of a task, or one of the latest to give it back: then it is a repeat.
function tasks.was_heard(t, request)
  return t.last == request or (t.back and string.find('\n' .. t.back .. '\n', '\n' .. request .. '\n', 1, true) and true)
end

-- Return the place of a task in the queue of its job.
function tasks.place_of(t) return numbers.digits(t.at - 1000000 * (t.prio or 0)) end

-- Return whether hubs may still report tasks that the store has lost.
function tasks.may_come_back()
  return store.reopened_ms and store.clock_ms - store.reopened_ms <= keys.seconds.early_ends * 1000
end

-- Return whether a worker, or an executor, holds a task with this status.
function tasks.is_held(status) return status == 'claimed' or status == 'running' end

-- List a task under a status.
function tasks.list_under(t, status)
  if tasks.is_held(status) then redis.call('ZADD', keys.held_tasks, t.at, t.id) end
  redis.call('ZADD', keys.room_tasks(status .. ':' .. t.room), t.at, t.id)
  redis.call('ZADD', keys.job_tasks(status .. ':' .. t.room .. ':' .. t.job), t.at, t.id)
end

-- Take a task out of the lists of a status.
function tasks.unlist(t, status)
  redis.call('ZREM', keys.room_tasks(status .. ':' .. t.room), t.id)
  redis.call('ZREM', keys.job_tasks(status .. ':' .. t.room .. ':' .. t.job), t.id)
  if tasks.is_held(status) then redis.call('ZREM', keys.held_tasks, t.id) end
end

-- Move a task to the lists of another status, which becomes `t.status`.
function tasks.relist(t, status)
  tasks.unlist(t, t.status)
  tasks.list_under(t, status)
  t.status = status
end

-- Count a task that ended or was deleted no longer for its user and its room.
function tasks.uncount(t)
  if t.bytes and t.user and t.room then quotas.release('tasks', t.user, t.room, tonumber(t.bytes)) end
end

return tasks

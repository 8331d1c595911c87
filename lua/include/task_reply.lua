-- @include queue
-- A task as the hub reads it: id, then the fields, then payload, place in the queue and claim; '' where there is none.
local SHOWN = {'job', 'room', 'status', 'at', 'user', 'started', 'done', 'worker', 'error', 'attempt', 'max', 'prio', 'due'}
local function task_reply(t)
  local reply = {t.id}
  for i, name in ipairs(SHOWN) do reply[i + 1] = t[name] or '' end
  -- The worker of a task that has ended may be gone: nobody goes through all the tasks it ever had.
  if t.done and t.worker and redis.call('EXISTS', key_worker(t.worker)) == 0 then reply[9] = '' end
  reply[15] = redis.call('GET', key_payload(t.id)) or '{}'
  reply[16] = t.status == 'pending' and position_of(t) or ''
  reply[17] = t.claim or ''
  return reply
end

-- Submissions: how a new task is made.
local submissions = {}

local ASKED = {'prio', 'attempt', 'max', 'backoff_ms', 'silence', 'unique', 'due', 'after', 'bytes'}

-- Make a task. t: id, job, room, user, and the options of ASKED that the submit names. It cannot be claimed before `due_us`, nor before its
-- parents, if any, are over. Returns the task, which has ended already where a hub said so after a loss.
function submissions.make(t, payload, due_us, parents)
  t.status, t.at = 'pending', numbers.digits(store.next_us())
  local record = {'job', t.job, 'room', t.room, 'user', t.user, 'at', t.at, 'status', 'pending'}
  if t.max then t.attempt = '1' end
  if not (due_us and due_us > store.now_us) then due_us = nil end
  if parents and due_us then t.due = numbers.digits(due_us) end
  for _, name in ipairs(ASKED) do
    if t[name] then record[#record + 1], record[#record + 2] = name, t[name] end
  end
  redis.call('HSET', keys.task(t.id), unpack(record))
  if payload ~= '{}' then redis.call('SET', keys.payload(t.id), payload) end
  uniques.take(t)
  tasks.list_under(t, 'pending')
  if parents then blocked.wait(t, parents) elseif due_us then put_off_tasks.add(t, due_us) else job_queue.enter(t) end
  limit_rooms.let_others_in()
  t.position = job_queue.position_of(t)
  events.status(t)
  if t.position then events.available(t) end
  return recalls.end_made(t.id) and tasks.read(t.id) or t
end

return submissions

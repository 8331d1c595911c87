-- Blocked tasks: tasks that wait until other tasks, their parents, are over.
local blocked = {}

-- The field `after` of a task says that the task waits, and what becomes of it when a parent ends otherwise than completed: 'fail' |
-- 'run'. Waiting tasks count in the field `later` of their job, which is not deleted meanwhile. The field `followed` of a task says
-- that other tasks wait for it.
local LOOK_AGAIN_MS = 60000  -- how long after a task began to wait its parents are checked, in case their ends were not told

-- Read the status of the parents of a new task; `parents` is the policy and then their ids. Returns the ids of the open ones, {id,
-- status} of the first parent for which the new task fails or nil, and the ids of those without a record, which count as open.
function blocked.standing(policy, parents)
  local open, failed, unknown = {}, nil, {}
  for id in string.gmatch(string.sub(parents, #policy + 1), '%x+') do
    local status = redis.call('HGET', keys.task(id), 'status')
    if not status then unknown[#unknown + 1] = id end
    if not status or status == 'pending' or tasks.is_held(status) then
      open[#open + 1] = id
    elseif status ~= 'completed' and policy == 'fail' then
      failed = failed or {id, status}
    end
  end
  return open, failed, unknown
end

-- Note at the parent that this task waits for it, so that it is told of the end.
function blocked.follow(id, parent)
  redis.call('SADD', keys.task_children(parent), id)
  if redis.call('EXISTS', keys.task(parent)) == 1 then redis.call('HSET', keys.task(parent), 'followed', '1') end
end

-- Let a new task wait for its parents.
function blocked.wait(t, parents)
  redis.call('SADD', keys.task_parents(t.id), unpack(parents))
  for _, parent in ipairs(parents) do blocked.follow(t.id, parent) end
  blocked.look_later(t)
  redis.call('HINCRBY', keys.job(t.job), 'later', 1)
end

-- Set when the parents of a waiting task are checked next.
function blocked.look_later(t) redis.call('ZADD', keys.blocked, store.clock_ms + LOOK_AGAIN_MS, t.id) end

-- End the wait of a task for its parents; where it goes is up to the caller.
local function wait_no_more(t)
  redis.call('ZREM', keys.blocked, t.id)
  redis.call('DEL', keys.task_parents(t.id))
  redis.call('HDEL', keys.task(t.id), 'after')
  redis.call('HINCRBY', keys.job(t.job), 'later', -1)
  t.after = nil
end

-- Take a pending task out of the queue of its job, the wait for its due time or the wait for its parents.
function blocked.take_out(t)
  job_queue.leave(t)
  if t.after then
    wait_no_more(t)
  elseif redis.call('ZREM', keys.later, t.id) == 1 then
    redis.call('HINCRBY', keys.job(t.job), 'later', -1)
  end
  redis.call('HDEL', keys.task(t.id), 'due')
  t.due = nil
end

-- Let a task whose parents are over into the queue of its job, or put it off where it is not due yet.
function blocked.let_in(t)
  wait_no_more(t)
  if t.due and tonumber(t.due) > store.now_us then return put_off_tasks.add(t, tonumber(t.due)) end
  redis.call('HDEL', keys.task(t.id), 'due')
  job_queue.enter(t)
  limit_rooms.let_others_in()
  t.position = job_queue.position_of(t)
  events.status(t)
  events.available(t)
end

return blocked

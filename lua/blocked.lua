-- Blocked tasks: those that wait until others are over.
local blocked = {}

-- `after` of a task says that it waits, and what becomes of it where one of those is not completed: 'fail' | 'run'. Who waits
-- counts among those put off, which keep their job. `followed` says that other tasks wait for a task.
local LOOK_AGAIN_MS = 60000  -- how often it is asked whether those it waits for are over without its having heard

-- How those stand that a task is to wait for. Returns the open ones, the first one for which it fails, and the unknown ones.
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

-- A parent knows who waits for it.
function blocked.follow(id, parent)
  redis.call('SADD', keys.task_children(parent), id)
  if redis.call('EXISTS', keys.task(parent)) == 1 then redis.call('HSET', keys.task(parent), 'followed', '1') end
end

function blocked.wait(t, parents)
  redis.call('SADD', keys.task_parents(t.id), unpack(parents))
  for _, parent in ipairs(parents) do blocked.follow(t.id, parent) end
  blocked.look_later(t)
  redis.call('HINCRBY', keys.job(t.job), 'later', 1)
end

function blocked.look_later(t) redis.call('ZADD', keys.blocked, store.clock_ms + LOOK_AGAIN_MS, t.id) end

local function wait_no_more(t)
  redis.call('ZREM', keys.blocked, t.id)
  redis.call('DEL', keys.task_parents(t.id))
  redis.call('HDEL', keys.task(t.id), 'after')
  redis.call('HINCRBY', keys.job(t.job), 'later', -1)
  t.after = nil
end

-- Take a pending task out of wherever it waits.
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

function blocked.let_in(t)
  wait_no_more(t)
  if t.due and tonumber(t.due) > store.now_us then return job_queue.put_off(t, tonumber(t.due)) end
  redis.call('HDEL', keys.task(t.id), 'due')
  job_queue.enter(t)
  t.position = job_queue.position_of(t)
  events.status(t)
  events.available(t)
end

return blocked

-- Chains: what the end of a task means for those that wait for it.
local chains = {}

-- Why a task fails that waits for one which is not completed.
function chains.why(parent, status)
  return 'Task ' .. names.dashed(parent) .. ', which it waits for, ' .. (status == 'failed' and 'has failed' or 'was ' .. status)
end

-- One of those a task waits for is over; `close` ends tasks (outcomes.close).
local function hear(t, parent, status, close)
  redis.call('SREM', keys.task_parents(t.id), parent)
  if status ~= 'completed' and t.after == 'fail' then
    close(t, 'failed', chains.why(parent, status), 'after:' .. parent)
    jobs.check_orphan(t.job)
  elseif redis.call('EXISTS', keys.task_parents(t.id)) == 0 then
    blocked.let_in(t)
  end
end

-- Tell those who wait for tasks that these are over, as many as a call may; the sweeper goes on with the others.
function chains.go_on(close)
  call_state.settles = true
  while call_state.to_settle > 0 do
    local over = redis.call('ZRANGE', keys.settling, 0, 0)[1]
    if not over then break end
    local parent, status = string.match(over, '^(%x+):(%l+)$')
    -- What no hub wrote names no parent, and goes like one whose children have all heard.
    local children = parent and lenient.call({}, 'SPOP', keys.task_children(parent), call_state.to_settle) or {}
    for _, id in ipairs(children) do
      local t = tasks.read(id)
      if t and t.after then hear(t, parent, status, close) end
    end
    if #children < call_state.to_settle then redis.call('ZREM', keys.settling, over) end
    call_state.to_settle = call_state.to_settle - math.max(1, #children)
  end
  call_state.settles = nil
end

-- A task is over.
function chains.settle(t, close)
  if not t.followed then return end
  redis.call('ZADD', keys.settling, t.done, t.id .. ':' .. t.status)
  if not call_state.settles then chains.go_on(close) end  -- those of a child that fails come with the others
end

-- Whether those who wait for a task have yet to hear that it is over.
function chains.is_awaited(parent)
  local status = redis.call('HGET', keys.task(parent), 'status')
  if not status then return tasks.may_come_back() end
  return status == 'pending' or tasks.is_held(status) or redis.call('ZSCORE', keys.settling, parent .. ':' .. status)
end

-- Whether a task waits for one that is not over, and that knows of it.
function chains.has_open(t)
  for _, parent in ipairs(redis.call('SMEMBERS', keys.task_parents(t.id))) do
    local status, followed = unpack(redis.call('HMGET', keys.task(parent), 'status', 'followed'))
    local open = status == 'pending' or tasks.is_held(status)
    if open and followed and redis.call('SISMEMBER', keys.task_children(parent), t.id) == 1 then return true end
  end
  return false
end

-- Check the tasks that a task waits for. One without a record was lost, unless a hub may yet submit it again.
function chains.look_again(t, close)
  for _, parent in ipairs(redis.call('SMEMBERS', keys.task_parents(t.id))) do
    local status = redis.call('HGET', keys.task(parent), 'status')
    if not (status or tasks.may_come_back()) then status = 'lost' end
    if status and status ~= 'pending' and not tasks.is_held(status) then
      hear(t, parent, status, close)
      if not t.after then return end
    else
      blocked.follow(t.id, parent)
    end
  end
  if redis.call('EXISTS', keys.task_parents(t.id)) == 0 then return blocked.let_in(t) end
  blocked.look_later(t)
end

return chains

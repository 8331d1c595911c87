-- Chains: what happens to waiting tasks when a task that they wait for, their parent, ends.
local chains = {}

-- Return the error text of a task that fails because its parent ended with this status.
function chains.why(parent, status)
  return 'Task ' .. names.dashed(parent) .. ', which it waits for, ' .. (status == 'failed' and 'has failed' or 'was ' .. status)
end

-- Tell a waiting task that a parent is over: it fails, or it can be claimed when no other parent is open. `close` is outcomes.close.
local function hear(t, parent, status, close)
  redis.call('SREM', keys.task_parents(t.id), parent)
  if status ~= 'completed' and t.after == 'fail' then
    close(t, 'failed', chains.why(parent, status), 'after:' .. parent)
    jobs.check_orphan(t.job)
  elseif redis.call('EXISTS', keys.task_parents(t.id)) == 0 then
    blocked.let_in(t)
  end
end

-- Tell waiting tasks that their parents are over, at most as many as the call may; the sweeper does the rest in further calls.
function chains.go_on(close)
  call_state.settles = true
  while call_state.to_settle > 0 do
    local over = redis.call('ZRANGE', keys.settling, 0, 0)[1]
    if not over then break end
    local parent, status = string.match(over, '^(%x+):(%l+)$')
    -- A member that no hub wrote names no parent: it is deleted like a parent whose children have all been told.
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

-- Tell the tasks that wait for a task that it has ended; the task `t` has its terminal status.
function chains.settle(t, close)
  if not t.followed then return end
  redis.call('ZADD', keys.settling, t.done, t.id .. ':' .. t.status)
  if not call_state.settles then chains.go_on(close) end  -- while go_on runs, it goes on to the children of this task
end

-- Return whether tasks that wait for this parent have yet to be told that it is over.
function chains.is_awaited(parent)
  local status = redis.call('HGET', keys.task(parent), 'status')
  if not status then return tasks.may_come_back() end
  return status == 'pending' or tasks.is_held(status) or redis.call('ZSCORE', keys.settling, parent .. ':' .. status)
end

-- Return whether a waiting task has a parent that is open and that lists the task as waiting for it.
function chains.has_open(t)
  for _, parent in ipairs(redis.call('SMEMBERS', keys.task_parents(t.id))) do
    local status, followed = unpack(redis.call('HMGET', keys.task(parent), 'status', 'followed'))
    local open = status == 'pending' or tasks.is_held(status)
    if open and followed and redis.call('SISMEMBER', keys.task_children(parent), t.id) == 1 then return true end
  end
  return false
end

-- Check the parents of a waiting task. A parent without a record counts as lost, unless a hub may yet submit it again.
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

-- Rooms under limits: tasks that wait beside the queues of their jobs are let in where a limit has room again.
local limit_rooms = {}

local MOST = 50  -- tasks of a group, or of a backlog, in one call

-- Let a task into the queue of its job that waited beside it. from: as of job_queue.enter.
local function let_in(id, from)
  local t = tasks.read(id)
  if not t or not limited_tasks.leave(t) then return false end
  if t.status == 'pending' then job_queue.enter(t, from) end
  if t.status == 'pending' and not t.limited then events.available(t) end
  return true
end

-- Let up to `most` tasks of a group into the queue as long as it has room. Returns how many it let in.
local function let_in_of(group, most)
  local limit, full = job_limits.of_group(group)
  for n = 1, limit and most + 1 or 0 do
    local room, due = job_limits.room(limit, group)
    local id = (room > 0 or due) and redis.call('ZRANGE', keys.limit_held(group), 0, 0)[1]
    if not id then return n - 1 end
    if redis.call('SISMEMBER', keys.limit_backlogs, full) == 1 then  -- its limits change
      redis.call('ZADD', keys.limits_due, 'LT', numbers.whole(store.clock_ms), group)
      return n - 1
    end
    if room <= 0 or n > most then
      redis.call('ZADD', keys.limits_due, 'LT', room > 0 and 0 or numbers.whole(due), group)
      return n - 1
    end
    if not let_in(id, 'held') then redis.call('ZREM', keys.limit_held(group), id) end  -- its record is lost or broken
    if redis.call('EXISTS', keys.limit_held(group)) == 0 then redis.call('SREM', keys.limited(full), group) end
  end
  return limit and most or 0
end

-- Let others into the queues for the tasks that this call has ended or taken out.
function limit_rooms.let_others_in()
  local left = MOST
  while call_state.groups[1] do
    local group = table.remove(call_state.groups)
    if left > 0 then left = left - 1 - let_in_of(group, left) else redis.call('ZADD', keys.limits_due, 'LT', 0, group) end
  end
end

-- Let in up to `most` tasks of groups that may have room by now, as time has passed, and some of the backlogs of jobs whose limits have
-- changed. Returns the jobs that have a backlog still.
function limit_rooms.let_in_due(most)
  local left = {}
  if not store.job_terms then return left end
  for _, group in ipairs(redis.call('ZRANGE', keys.limits_due, '-inf', store.clock_ms, 'BYSCORE', 'LIMIT', 0, most)) do
    if most <= 0 then break end
    redis.call('ZREM', keys.limits_due, group)
    most = most - 1 - let_in_of(group, most)
  end
  for _, full in ipairs(redis.call('SRANDMEMBER', keys.limit_backlogs, 4)) do
    local ids = limit_changes.dissolve(full) and redis.call('ZRANGE', keys.limit_backlog(full), 0, MOST - 1) or {}
    for _, id in ipairs(ids) do
      if not let_in(id, 'backlog') then redis.call('ZREM', keys.limit_backlog(full), id) end
    end
    local more = redis.call('EXISTS', keys.limit_backlog(full), keys.limit_old(full), keys.limit_running(full)) > 0
    if more then left[#left + 1] = full else redis.call('SREM', keys.limit_backlogs, full) end
  end
  limit_rooms.let_others_in()
  return left
end

return limit_rooms

-- Tasks of jobs with limits. One that a limit keeps waits beside the queue of its job, under the first of its groups that is full; the
-- others count in all their groups from when they enter the queue.
local limited_tasks = {}

-- Return the first group of a task that has no room for it: group, when it may have, its limit; nil where all have. `first`: no other
-- that waits for the group goes before.
local function full_group(t, groups, first)
  for _, each in ipairs(groups) do
    local limit, group = unpack(each)
    if not redis.call('ZSCORE', keys.limit_taken(group), t.id) then
      local room, due = job_limits.room(limit, group)
      if room <= 0 then return group, due, limit end
      if not first and redis.call('EXISTS', keys.limit_held(group)) == 1 then return group, due, nil end
    end
  end
end

-- Return whether all groups of a task have room for it, whatever waits.
function limited_tasks.has_room(t) return not full_group(t, job_limits.groups(t), true) end

-- Keep a pending task beside the queue until a group has room.
local function hold(t, group, due)
  limit_counts.let_go(t)
  redis.call('ZADD', keys.limit_held(group), tasks.place_of(t), t.id)
  redis.call('SADD', keys.limited(t.job), group)
  redis.call('HSET', keys.task(t.id), 'limited', group)
  redis.call('HINCRBY', keys.job(t.job), 'later', 1)
  t.limited = group
  if due then redis.call('ZADD', keys.limits_due, 'LT', numbers.whole(due), group) end
end

-- Put the last task that a group has let into the queue beside it, if a task goes before that one. Returns whether it did.
local function evict_for(t, group)
  local id, place = unpack(redis.call('ZRANGE', keys.limit_taken(group), -1, -1, 'WITHSCORES'))
  local other = id and tonumber(place) > tonumber(tasks.place_of(t)) and tasks.read(id)
  if not other or redis.call('ZREM', keys.job_queue(other.job), id) == 0 then return false end
  hold(other, group)
  return true
end

-- Count a task in its groups, or keep it beside the queue where one has no room. Returns whether it is kept, and whether another one
-- has left the queue for it.
function limited_tasks.keep_out(t, first)
  local groups, evicted = job_limits.groups(t), false
  local group, due, limit = full_group(t, groups, first)
  for _ = 1, #groups do
    if not (limit and evict_for(t, group)) then break end
    evicted, group, due, limit = true, full_group(t, groups, true)
  end
  if group then hold(t, group, due) return true, evicted end
  limit_counts.count(t, groups)
  return false, evicted
end

-- Take a task out of those that wait beside the queue. Returns whether it was there.
function limited_tasks.leave(t)
  local group = t.limited
  if group then redis.call('HDEL', keys.task(t.id), 'limited') end
  t.limited = nil
  local was = group and redis.call('ZREM', keys.limit_held(group), t.id) == 1
  if was and redis.call('EXISTS', keys.limit_held(group)) == 0 then redis.call('SREM', keys.limited(t.job), group) end
  was = was or (store.job_terms and redis.call('ZREM', keys.limit_backlog(t.job), t.id) == 1)
  if was then redis.call('HINCRBY', keys.job(t.job), 'later', -1) end
  return was
end

return limited_tasks

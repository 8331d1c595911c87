-- Counts under limits: which tasks a group counts. In `limit_taken` those that run stand before those that it has let into the queue.
local limit_counts = {}

-- Count a task no longer in a group. Returns whether it was counted.
local function uncount(t, group)
  if redis.call('ZREM', keys.limit_taken(group), t.id) == 0 then return false end
  if redis.call('EXISTS', keys.limit_taken(group)) == 0 then redis.call('SREM', keys.limit_groups(t.job), group) end
  return true
end

-- Count a task in its groups.
function limit_counts.count(t, groups)
  for _, each in ipairs(groups) do
    redis.call('ZADD', keys.limit_taken(each[2]), 'NX', tasks.place_of(t), t.id)
    redis.call('SADD', keys.limit_groups(t.job), each[2])
  end
end

-- Count a task that starts now and that its groups count already.
function limit_counts.start(t)
  for _, each in ipairs(job_limits.groups(t)) do
    local limit, group = unpack(each)
    if limit.running then
      redis.call('ZADD', keys.limit_taken(group), '-inf', t.id)
    else
      uncount(t, group)
      redis.call('LPUSH', keys.limit_starts(group), numbers.whole(store.clock_ms))
      redis.call('PEXPIRE', keys.limit_starts(group), limit.per_ms + 3600000)
      local _, due = job_limits.room(limit, group)
      if redis.call('EXISTS', keys.limit_held(group)) == 1 then redis.call('ZADD', keys.limits_due, 'LT', numbers.whole(due), group) end
    end
  end
end

-- Count a task that runs, whatever room there is: its worker has it again after a loss of the store.
function limit_counts.resume(t)
  limit_counts.count(t, job_limits.groups(t))
  limit_counts.start(t)
end

-- Count a task no longer, and note the groups that have room again for limit_rooms.let_others_in.
function limit_counts.let_go(t)
  for _, each in ipairs(job_limits.groups(t)) do
    if uncount(t, each[2]) then table.insert(call_state.groups, each[2]) end
  end
end

return limit_counts

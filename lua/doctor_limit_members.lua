-- Rules of the doctor for limits of jobs, in the form of those in doctor_members: which tasks a group counts, and which it keeps.
local doctor_limit_members = {}

local DAY_MS = 86400000  -- the longest time of a rate

-- Return whether a group is one of limits that its job had before, which rounds dissolve.
function doctor_limit_members.is_old(full, group) return redis.call('SISMEMBER', keys.limit_old(full), group) == 1 end

-- Return the groups of a task as job_limits.groups does, and change nothing.
local function groups_of(t)
  local limits, digest = job_limits.of(t.job)
  local found = {}
  if not limits then return found end
  local said = redis.call('HGET', keys.task(t.id), 'groups') or ''
  local values = string.sub(said, 1, #digest) == digest and cjson.decode(string.sub(said, #digest + 1))
    or payload_values.at_paths(redis.call('GET', keys.payload(t.id)) or '{}', limits)
  for n, limit in ipairs(limits) do found[n] = {limit, job_limits.name_of(t.job, limit, values[n])} end
  return found
end

-- Return whether a task that is held, or is in its queue, counts under each limit of its job.
function doctor_limit_members.is_counted(t)
  if redis.call('SISMEMBER', keys.limit_backlogs, t.job) == 1 then return true end  -- its limits change, and rounds count it
  local held = tasks.is_held(t.status)
  for _, each in ipairs(groups_of(t)) do
    local place = redis.call('ZSCORE', keys.limit_taken(each[2]), t.id)
    if held and each[1].running and place ~= '-inf' or not held and (not place or place == '-inf') then return false end
  end
  return true
end

-- Return the record of a task that waits for nothing but its turn; {} for none.
local function waiting(id)
  local t = tasks.read(id)
  return t and t.status == 'pending' and not (t.due or t.after) and t or {}
end

doctor_limit_members.belongs = {
  limit_taken = function(group, id)
    if doctor_limit_members.is_old(job_limits.job_of(group), group) then return true end
    local t = tasks.read(id)
    local held = t and tasks.is_held(t.status or '')
    if not (held or t and t.status == 'pending' and redis.call('ZSCORE', keys.job_queue(t.job), id)) then return false end
    for _, each in ipairs(groups_of(t)) do
      if each[2] == group then return not held or each[1].running end
    end
    return false
  end,
  limit_held = function(group, id)
    local t = waiting(id)
    return t.limited == group and job_queue.beside(t) == keys.limit_held(group)
  end,
  limit_backlog = function(full, id) return waiting(id).job == full end,
  limit_groups = function(_, group) return redis.call('EXISTS', keys.limit_taken(group)) == 1 end,
  limited = function(_, group) return redis.call('EXISTS', keys.limit_held(group)) == 1 end,
  limits_due = function(_, group) return tonumber(redis.call('ZSCORE', keys.limits_due, group) or 0) <= store.clock_ms + DAY_MS end,
}

-- Take a task out of a group that counts or keeps it; the group leaves the list of its job once nothing is left there.
local function take_out(index, list, group, id)
  redis.call('ZREM', index, id)
  if redis.call('EXISTS', index) == 0 then redis.call('SREM', list, group) end
end

-- How a member is taken out of an index where more follows from it.
doctor_limit_members.take_out = {
  limit_taken = function(group, id)
    take_out(keys.limit_taken(group), keys.limit_groups(job_limits.job_of(group)), group, id)
    table.insert(call_state.groups, group)  -- it may have room for another task
  end,
  limit_held = function(group, id)
    take_out(keys.limit_held(group), keys.limited(job_limits.job_of(group)), group, id)
  end,
  limit_backlog = function(full, id) take_out(keys.limit_backlog(full), keys.limit_backlogs, full, id) end,
}

return doctor_limit_members

-- Limits of jobs: how many tasks of a job may run at once, and how many may start within a time, for the job or for each value that its
-- payloads have at a path. A group is the tasks that one limit counts together: its name is the job with its length, what the limit
-- counts, and the value. So it stays the same where a job gets another number for the same limit.
local job_limits = {}

-- Return the limits of a job: {{key (path into the payload) or nil, running, or count and per_ms}, ...} and their digest; nil for none.
function job_limits.of(full)
  if not store.job_terms then return nil end
  call_state.limits = call_state.limits or {}
  local known = call_state.limits[full]
  if known == nil then
    local text = redis.call('HGET', keys.job(full), 'limits')
    local good, said = pcall(cjson.decode, text or '')
    known = good and type(said) == 'table' and {said, string.sub(redis.sha1hex(text), 1, 12)} or false
    for _, limit in ipairs(known and said or {}) do
      limit.id = string.sub(redis.sha1hex((limit.key or '') .. '|' .. (limit.per_ms or '')), 1, 8)
    end
    call_state.limits[full] = known
  end
  if known then return known[1], known[2] end
end

-- Return the name of a group of a job. The length of the name of the job comes first, as that may have any characters.
function job_limits.name_of(full, limit, value) return #full .. '\t' .. full .. '\t' .. limit.id .. ':' .. value end

-- Return the job of a group; '' for no name of a group.
function job_limits.job_of(group)
  local length, rest = string.match(group, '^(%d+)\t(.*)$')
  return length and string.sub(rest, 1, length) or ''
end

-- Return the groups of a task: {{limit, name}, ...}; {} where its job has no limits. The payload is read once.
function job_limits.groups(t)
  local limits, digest = job_limits.of(t.job)
  local found = {}
  if not limits then return found end
  local said = redis.call('HGET', keys.task(t.id), 'groups') or ''
  local values = string.sub(said, 1, #digest) == digest and cjson.decode(string.sub(said, #digest + 1))
  if not values then
    values = payload_values.at_paths(redis.call('GET', keys.payload(t.id)) or '{}', limits)
    redis.call('HSET', keys.task(t.id), 'groups', digest .. cjson.encode(values))
  end
  for n, limit in ipairs(limits) do found[n] = {limit, job_limits.name_of(t.job, limit, values[n])} end
  return found
end

-- Return the limit and the job of a group; nil where the job has other limits now.
function job_limits.of_group(group)
  local full = job_limits.job_of(group)
  for _, limit in ipairs(job_limits.of(full) or {}) do
    local head = job_limits.name_of(full, limit, '')
    if string.sub(group, 1, #head) == head then return limit, full end
  end
end

-- Return how many further tasks of a group may be let into the queue: those in it count like those that run, or that have started within
-- the time of the limit. The second value is when the oldest of the latter counts no longer, on the hub clock; nil for none.
function job_limits.room(limit, group)
  local taken = redis.call('ZCARD', keys.limit_taken(group))
  if limit.running then return limit.running - taken, nil end
  local starts = keys.limit_starts(group)
  local oldest = tonumber(redis.call('LINDEX', starts, -1) or nil)
  while oldest and oldest + limit.per_ms <= store.clock_ms do
    redis.call('RPOP', starts)
    oldest = tonumber(redis.call('LINDEX', starts, -1) or nil)
  end
  return limit.count - redis.call('LLEN', starts) - taken, oldest and oldest + limit.per_ms
end

return job_limits

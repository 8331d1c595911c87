-- Checks and repairs of limits: of groups, of jobs with needs and limits, and of what the store knows of such jobs.
local doctor_limits = {}
local job_of, is_old = job_limits.job_of, doctor_limit_members.is_old

local function is_listed(index, list, group) return redis.call('EXISTS', index) == 0 or redis.call('SISMEMBER', list, group) == 1 end

-- Return whether tasks that a group keeps would not be let in when it has room: now, or once a start counts no longer. None are while
-- the limits of its job change.
local function is_forgotten(limit, group)
  if redis.call('EXISTS', keys.limit_held(group)) == 0 then return false end
  if redis.call('SISMEMBER', keys.limit_backlogs, job_of(group)) == 1 then return false end
  local taken = redis.call('ZCARD', keys.limit_taken(group))
  local due, now = tonumber(redis.call('ZSCORE', keys.limits_due, group) or 'inf'), store.clock_ms
  if limit.running then return taken < limit.running and due > now end
  local function counts_until(n) return tonumber(redis.call('LINDEX', keys.limit_starts(group), n) or '-inf') + limit.per_ms end
  local roomy = taken < limit.count and counts_until(limit.count - taken - 1) <= now
  return (roomy or counts_until(0) > now) and due > (roomy and now or counts_until(0))
end

-- Check a group of tasks that counts or keeps some.
function doctor_limits.check(say, _, group)
  local limit, full = job_limits.of_group(group), job_of(group)
  if is_old(full, group) then return end
  if not limit then return say('unknown', redis.call('EXISTS', keys.limit_taken(group), keys.limit_held(group)) > 0) end
  say('unlisted', not (is_listed(keys.limit_held(group), keys.limited(full), group)
    and is_listed(keys.limit_taken(group), keys.limit_groups(full), group)))
  say('forgotten', is_forgotten(limit, group))
end

-- A group of another limit is dissolved as if its job had got other limits now.
function doctor_limits.repair(group)
  local limit, full = job_limits.of_group(group), job_of(group)
  if is_old(full, group) then return end
  if not limit then
    redis.call('SADD', keys.limit_old(full), group)
    redis.call('SADD', keys.limit_backlogs, full)
    redis.call('SREM', keys.limited(full), group)
    return
  end
  if redis.call('EXISTS', keys.limit_taken(group)) == 1 then redis.call('SADD', keys.limit_groups(full), group) end
  if redis.call('EXISTS', keys.limit_held(group)) == 1 then redis.call('SADD', keys.limited(full), group) end
  if is_forgotten(limit, group) then table.insert(call_state.groups, group) end
end

-- Check what a job needs and its limits, which the store must know of, and that its backlog is let in.
function doctor_limits.check_job(say, full)
  local needs, limits = unpack(redis.call('HMGET', keys.job(full), 'needs', 'limits'))
  say('terms forgotten', (needs or limits) and redis.call('HGET', keys.store, 'job_terms') ~= '1')
  say('terms unreadable', needs and not bundle_wishes.read(needs) or limits and not job_limits.of(full))
  say('backlog', redis.call('EXISTS', keys.limit_backlog(full), keys.limit_old(full)) > 0
    and redis.call('SISMEMBER', keys.limit_backlogs, full) == 0)
end

-- Terms that cannot be read are none, until a worker registers the job again.
function doctor_limits.repair_job(full)
  local needs, limits = unpack(redis.call('HMGET', keys.job(full), 'needs', 'limits'))
  if needs and not bundle_wishes.read(needs) then redis.call('HDEL', keys.job(full), 'needs') end
  if limits and not job_limits.of(full) then limit_changes.apply(full, '') end
  if needs or limits then redis.call('HSET', keys.store, 'job_terms', '1') end
  if redis.call('EXISTS', keys.limit_backlog(full), keys.limit_old(full)) > 0 then redis.call('SADD', keys.limit_backlogs, full) end
end

return doctor_limits

-- Changes of limits: a job gets other limits than it had. All its tasks that wait become its backlog, in the order of the queue: first the
-- groups of before are dissolved, then tasks are let into the queue again, as far as the new limits have room. Rounds and claims do that,
-- some in each call, so that no call is long.
local limit_changes = {}

local MOST = 500  -- tasks and groups in one call

-- Count for the limits of a job some of the tasks that ran when these came. Returns whether all are counted.
local function count_running(full)
  local ids = redis.call('ZPOPMIN', keys.limit_running(full), 100)
  for i = 1, #ids, 2 do
    local t = redis.call('HGET', keys.task(ids[i]), 'job') == full and tasks.read(ids[i])
    for _, each in ipairs(t and tasks.is_held(t.status) and job_limits.groups(t) or {}) do
      if each[1].running then
        redis.call('ZADD', keys.limit_taken(each[2]), '-inf', t.id)
        redis.call('SADD', keys.limit_groups(full), each[2])
      end
    end
  end
  return not ids[1]
end

-- Give a job other limits, '' for none. What a limit counts goes on to count where only its number is another one. Returns whether they are
-- other ones.
function limit_changes.apply(full, text)
  if (redis.call('HGET', keys.job(full), 'limits') or '') == text then return false end
  local queue, backlog = keys.job_queue(full), keys.limit_backlog(full)
  redis.call('HINCRBY', keys.job(full), 'later', redis.call('ZCARD', queue))
  if redis.call('EXISTS', backlog) == 1 then
    redis.call('ZUNIONSTORE', backlog, 2, backlog, queue, 'AGGREGATE', 'MAX')
    redis.call('DEL', queue)
  elseif redis.call('EXISTS', queue) == 1 then
    redis.call('RENAME', queue, backlog)
  end
  redis.call('ZREM', keys.heads, full)
  redis.call('SUNIONSTORE', keys.limit_old(full), keys.limit_old(full), keys.limit_groups(full), keys.limited(full))
  redis.call('DEL', keys.limited(full))
  if text == '' then redis.call('HDEL', keys.job(full), 'limits') else redis.call('HSET', keys.job(full), 'limits', text) end
  if text ~= '' then redis.call('HSET', keys.store, 'job_terms', '1') end
  store.job_terms, call_state.limits = store.job_terms or text ~= '', nil
  if text ~= '' then redis.call('ZUNIONSTORE', keys.limit_running(full), 1, keys.held_tasks) end
  redis.call('SADD', keys.limit_backlogs, full)  -- the next round takes a job out that has nothing to change
  return true
end

-- Count in a group only tasks that run. One may have ended while its job had other limits.
local function count_anew(group, limit)
  local key = keys.limit_taken(group)
  redis.call('ZREMRANGEBYSCORE', key, limit and limit.running and '(-inf' or '-inf', '+inf')
  local running = redis.call('ZRANGE', key, 0, -1)
  for _, id in ipairs(running) do
    if not tasks.is_held(redis.call('HGET', keys.task(id), 'status')) then redis.call('ZREM', key, id) end
  end
  return #running
end

-- Dissolve groups of before: their tasks that wait join the backlog, and of those that they count only the ones that run go on to count.
-- Then what runs is counted. Returns whether all that is done.
function limit_changes.dissolve(full)
  local left = MOST
  while left > 0 do
    local group = redis.call('SRANDMEMBER', keys.limit_old(full))
    if not group then return count_running(full) end
    local held = redis.call('ZRANGE', keys.limit_held(group), 0, left - 1, 'WITHSCORES')
    for i = 1, #held, 2 do redis.call('ZADD', keys.limit_backlog(full), held[i + 1], held[i]) end
    if #held > 0 then redis.call('ZREMRANGEBYRANK', keys.limit_held(group), 0, #held / 2 - 1) end
    left = left - 1 - #held / 2
    if redis.call('EXISTS', keys.limit_held(group)) == 0 then
      local limit = job_limits.of_group(group)
      left = left - count_anew(group, limit)
      if not limit then redis.call('DEL', keys.limit_starts(group)) end
      redis.call('ZREM', keys.limits_due, group)
      redis.call('SREM', keys.limit_old(full), group)
      if redis.call('EXISTS', keys.limit_taken(group)) == 0 then redis.call('SREM', keys.limit_groups(full), group) end
    end
  end
  return false
end

return limit_changes

-- Claims: which tasks a worker gets.
local claims = {}

-- Return jobs of a worker, as full names, that have the `most` oldest tasks in their queues. For a worker of several jobs they are
-- looked for among the first tasks of all queues, as long as that costs less than a look into each queue of the worker; else all jobs
-- of the worker are returned.
local function oldest_queues(worker, most)
  local jobs = keys.worker_jobs(worker)
  local count = redis.call('SCARD', jobs)
  local found, from, batch = {}, 0, 16
  while count > 2 and from < 8 * count do
    local heads = redis.call('ZRANGE', keys.heads, from, from + batch - 1)
    for i, linked in ipairs(#heads > 0 and redis.call('SMISMEMBER', jobs, unpack(heads)) or heads) do
      if linked == 1 then found[#found + 1] = heads[i] end
      if #found == most then return found end
    end
    if #heads < batch then return found end
    from, batch = from + batch, math.min(2 * batch, 1024)
  end
  return redis.call('SMEMBERS', jobs)
end

-- Return two functions: the first takes the oldest task of a worker's jobs off its queue and returns it, or nil when there is none;
-- the second is called when no further task is wanted. `most` is how many tasks are wanted at most; `fulls` are the jobs in question, nil
-- for those with the oldest tasks. ready(t) returns whether a task that is next may be taken: 'take', 'held' (it waits beside the queue
-- now), or 'skip' (no task of its job in this call).
function claims.oldest_first(worker, most, ready, fulls)
  fulls = fulls or oldest_queues(worker, most)
  local some = math.max(1, math.floor(most / math.max(1, #fulls)))  -- how many tasks of one queue are read at a time
  local queues = {}
  local function read_on(one)
    one.tasks, one.at = redis.call('ZRANGE', keys.job_queue(one.job), 0, some - 1, 'WITHSCORES'), 1
    one.score = tonumber(one.tasks[2])
  end
  for _, full in ipairs(fulls) do
    if not names.is_internal(full) then
      local one = {job = full}
      read_on(one)
      if one.score then queues[#queues + 1] = one end
    end
  end
  local function next_task()
    local oldest
    for _, one in ipairs(queues) do
      if one.score and (not oldest or one.score < oldest.score) then oldest = one end
    end
    if not oldest then return nil end
    local t = tasks.read(oldest.tasks[oldest.at])
    local word = t and t.status == 'pending' and ready(t)
    if word == 'skip' then
      oldest.score = nil
      return next_task()
    end
    redis.call('ZREM', keys.job_queue(oldest.job), oldest.tasks[oldest.at])
    oldest.left = true
    oldest.at = oldest.at + 2
    oldest.score = tonumber(oldest.tasks[oldest.at + 1])
    if not oldest.score and #oldest.tasks == 2 * some then read_on(oldest) end
    if word == 'take' then return t end
    return next_task()  -- it is held, or no pending task: another program wrote the entry, or the task was lost
  end
  local function leave()
    for _, one in ipairs(queues) do
      if one.left then job_queue.set_head(one.job) end
    end
  end
  return next_task, leave
end

return claims

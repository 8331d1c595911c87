-- @include queue
-- Take tasks off the queues of a worker's jobs, the oldest of all first: returns a function that takes the next one, or nil,
-- and one to call when no more are wanted.

-- The jobs of a worker in whose queues the oldest so many tasks are: those of several jobs are looked for among the first
-- tasks of all queues, as long as that takes less than a look into each of its own.
local function oldest_queues(worker, most)
  local jobs = key_worker_jobs(worker)
  local count = redis.call('SCARD', jobs)
  local found, from, bite = {}, 0, 16
  while count > 2 and from < 8 * count do
    local heads = redis.call('ZRANGE', key_heads, from, from + bite - 1)
    for i, linked in ipairs(#heads > 0 and redis.call('SMISMEMBER', jobs, unpack(heads)) or heads) do
      if linked == 1 then found[#found + 1] = heads[i] end
      if #found == most then return found end
    end
    if #heads < bite then return found end
    from, bite = from + bite, math.min(2 * bite, 1024)
  end
  return redis.call('SMEMBERS', jobs)
end

local function oldest_first(worker, most)
  local names = oldest_queues(worker, most)
  local some = math.max(1, math.floor(most / math.max(1, #names)))  -- of a queue, read at a time
  local queues = {}
  local function read_on(queue)
    queue.tasks, queue.at = redis.call('ZRANGE', key_queue(queue.job), 0, some - 1, 'WITHSCORES'), 1
    queue.score = tonumber(queue.tasks[2])
  end
  for _, full in ipairs(names) do
    if not is_internal(full) then
      local queue = {job = full}
      read_on(queue)
      if queue.score then queues[#queues + 1] = queue end
    end
  end
  local function next_task()
    local oldest
    for _, queue in ipairs(queues) do
      if queue.score and (not oldest or queue.score < oldest.score) then oldest = queue end
    end
    if not oldest then return nil end
    local id = oldest.tasks[oldest.at]
    redis.call('ZREM', key_queue(oldest.job), id)
    oldest.left = true
    oldest.at = oldest.at + 2
    oldest.score = tonumber(oldest.tasks[oldest.at + 1])
    if not oldest.score and #oldest.tasks == 2 * some then read_on(oldest) end
    local t = read_task(id)
    if t and t.status == 'pending' then return t end
    return next_task()  -- what stood there was none: another program wrote it, or a loss left it
  end
  local function leave()
    for _, queue in ipairs(queues) do
      if queue.left then set_head(queue.job) end
    end
  end
  return next_task, leave
end

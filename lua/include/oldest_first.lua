-- @include task
-- Take tasks off the queues of some jobs, the oldest of all first: returns a function that takes the next one, or nil.
local function oldest_first(names, most)
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
    oldest.at = oldest.at + 2
    oldest.score = tonumber(oldest.tasks[oldest.at + 1])
    if not oldest.score and #oldest.tasks == 2 * some then read_on(oldest) end
    local t = read_task(id)
    if t and t.status == 'pending' then return t end
    return next_task()  -- what stood there was none: another program wrote it, or a loss left it
  end
  return next_task
end

-- Outcomes: how a task ends (`close`), is tried again where it has attempts left (`fail`), or goes back into its queue (`give_back`).
local outcomes = {}

-- Delete what is kept of a task while a worker has it.
local function let_go(t)
  if t.worker then redis.call('SREM', keys.worker_tasks(t.worker), t.id) end
  if t.slots then task_slots.let_go(t) end
  if store.job_terms then limit_counts.let_go(t) end
  for _, key in ipairs({keys.runtimes, keys.ownerless, t.silence and keys.silences}) do redis.call('ZREM', key, t.id) end
  if names.is_internal(t.job) then
    redis.call('ZREM', keys.internal_tasks, t.id)
    local entry = redis.call('HGET', keys.task(t.id), 'entry')
    if entry then redis.pcall('XDEL', keys.taskiq, entry) end  -- nothing else deletes the message of the task
  end
end

-- Store the result of a task; further arguments go to SET. Where the result would use the reserve of memory, '!' is stored instead,
-- which no JSON begins with: reports of ends are never refused, so nothing else bounds what they add.
function outcomes.keep_result(id, result, ...)
  redis.call('SET', keys.task_result(id), reserve.would_use(#result) and '!' or result, ...)
end

-- End a task with a terminal status. The error is stored unless it is '', and so is the result of a completed task.
function outcomes.close(t, status, error, request, result)
  if t.status == 'pending' then blocked.take_out(t) else let_go(t) end
  tasks.relist(t, status)
  tasks.uncount(t)
  t.done = numbers.digits(store.now_us)
  redis.call('HSET', keys.task(t.id), 'status', status, 'done', t.done, 'last', request)
  if error ~= '' then
    t.error = reserve.shortened(error)
    redis.call('HSET', keys.task(t.id), 'error', t.error)
  end
  if result and result ~= '' and status == 'completed' then outcomes.keep_result(t.id, result) end
  uniques.let_go(t, status)
  redis.call('ZADD', keys.finished, t.done, t.id)
  if status == 'failed' and t.max then redis.call('ZADD', keys.dead, t.done, t.id) history.dead(t) end
  notifications.publish(keys.task_done(t.id), '')
  events.status(t)
  limit_rooms.let_others_in()
  chains.settle(t, outcomes.close)
end

-- Make a claimed or running task pending again, at its old place in the queue, or put off until `due_us`.
function outcomes.give_back(t, request, due_us)
  local had = t.worker and redis.call('HGET', keys.worker(t.worker), 'user')
  let_go(t)
  tasks.relist(t, 'pending')
  redis.call('HDEL', keys.task(t.id), 'worker', 'started', 'claimed', 'progress', 'message')
  -- The next claim overwrites `last`. `back` keeps the last four requests that gave the task back, so that a repeat of one is
  -- recognised.
  local back = string.match(request .. '\n' .. (t.back or ''), '^[^\n]*\n?[^\n]*\n?[^\n]*\n?[^\n]*')
  redis.call('HSET', keys.task(t.id), 'status', 'pending', 'last', request, 'back', back, 'had', had or '')
  t.worker, t.started = nil, nil
  if jobs.revive(t.job) then events.jobs(names.room_of(t.job)) end  -- what waits keeps its job
  if due_us and due_us > store.now_us then
    put_off_tasks.add(t, due_us)
  else
    job_queue.enter(t)
    t.position = job_queue.position_of(t)
  end
  events.status(t)
  limit_rooms.let_others_in()
  if t.position then events.available(t) end
end

-- Fail a task, or let it be tried again after a pause, where it has attempts left. The pause doubles with each attempt, up to an hour.
function outcomes.fail(t, error, request)
  local attempt = tonumber(t.attempt or '1')
  if not t.max or attempt >= tonumber(t.max) then return outcomes.close(t, 'failed', error, request) end
  error = reserve.shortened(error)
  local pause_ms = math.min(3600000, tonumber(t.backoff_ms) * 2 ^ (attempt - 1))
  t.attempt = string.format('%d', attempt + 1)
  redis.call('HSET', keys.task(t.id), 'attempt', t.attempt)
  history.note('task.retried', 'task', t.id, 'job', t.job, 'attempt', t.attempt, 'why', error)
  outcomes.give_back(t, request, store.now_us + pause_ms * 1000)
end

return outcomes

-- @include queue
-- @include orphan
-- Move a task on. `close` ends it; `fail` gives it another attempt where it has one left; `give_back` queues it again.

-- What a task leaves behind when nobody works on it any more.
local function let_go(t)
  if t.worker then redis.call('SREM', key_worker_tasks(t.worker), t.id) end
  redis.call('ZREM', key_runtimes, t.id)
  redis.call('ZREM', key_ownerless, t.id)
  if is_internal(t.job) then
    redis.call('ZREM', key_internal_tasks, t.id)
    local entry = redis.call('HGET', key_task(t.id), 'entry')
    if entry then redis.pcall('XDEL', key_taskiq, entry) end  -- nobody else deletes its message
  end
end

-- End a task with a terminal status. `error` is kept where there is one.
local function close(t, status, error, request)
  if t.status == 'pending' then
    unqueue(t)
    if redis.call('ZREM', key_later, t.id) == 1 then redis.call('HINCRBY', key_job(t.job), 'later', -1) end
    redis.call('HDEL', key_task(t.id), 'due')
    t.due = nil
  else
    let_go(t)
  end
  relist(t, status)
  t.done = digits(now_us)
  redis.call('HSET', key_task(t.id), 'status', status, 'done', t.done, 'last', request)
  if error ~= '' then
    redis.call('HSET', key_task(t.id), 'error', error)
    t.error = error
  end
  redis.call('ZADD', key_finished, t.done, t.id)
  if status == 'failed' and t.max then redis.call('ZADD', key_dead, t.done, t.id) end
  redis.call('PUBLISH', key_task_done(t.id), '')
  emit_status(t)
end

-- Make a claimed or running task pending again, at its old place, or put off until `due_us`.
local function give_back(t, request, due_us)
  local had = t.worker and redis.call('HGET', key_worker(t.worker), 'user')
  let_go(t)
  relist(t, 'pending')
  redis.call('HDEL', key_task(t.id), 'worker', 'started', 'claimed')
  -- The next claim overwrites `last`; whoever repeats this call, or one of those before, is to be known by then as well.
  local back = string.match(request .. '\n' .. (t.back or ''), '^[^\n]*\n?[^\n]*\n?[^\n]*\n?[^\n]*')
  redis.call('HSET', key_task(t.id), 'status', 'pending', 'last', request, 'back', back, 'had', had or '')
  t.worker, t.started = nil, nil
  if revive(t.job) then emit_jobs(room_of(t.job)) end  -- what waits keeps its job
  if due_us and due_us > now_us then
    put_off(t, due_us)
  else
    queue_up(t)
    t.position = position_of(t)
  end
  emit_status(t)
  if t.position then emit_available(t) end
end

-- Fail a task, or let it try again after a pause that doubles with each attempt, up to an hour.
local function fail(t, error, request)
  local attempt = tonumber(t.attempt or '1')
  if not t.max or attempt >= tonumber(t.max) then return close(t, 'failed', error, request) end
  local pause_ms = math.min(3600000, tonumber(t.backoff_ms) * 2 ^ (attempt - 1))
  t.attempt = string.format('%d', attempt + 1)
  redis.call('HSET', key_task(t.id), 'attempt', t.attempt)
  note('task.retried', 'task', t.id, 'job', t.job, 'attempt', t.attempt, 'why', error)
  give_back(t, request, now_us + pause_ms * 1000)
end

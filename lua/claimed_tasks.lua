-- Claimed tasks: what is noted when a worker gets a task.
local claimed_tasks = {}

-- Note that a worker has claimed a task by a request. `runs`: it runs at once; runtime_ms: how long it may take, 0 for no limit.
function claimed_tasks.mark(t, worker, request, runs, runtime_ms)
  t.worker, t.claim = worker, numbers.digits(math.max(store.now_us, (t.claim or 0) + 1))
  tasks.relist(t, runs and 'running' or 'claimed')
  if runs then
    redis.call('HSET', keys.task(t.id), 'status', t.status, 'worker', worker, 'last', request, 'claim', t.claim)
    t.status = 'claimed'  -- events tell both steps
    events.status(t)
    t.status, t.started = 'running', numbers.digits(store.now_us)
    redis.call('HSET', keys.task(t.id), 'started', t.started)
    progress.listen(t)
  else
    redis.call('HSET', keys.task(t.id), 'status', t.status, 'worker', worker, 'last', request,
      'claim', t.claim, 'claimed', store.clock_ms)
  end
  events.status(t)
  redis.call('SADD', keys.worker_tasks(worker), t.id)
  if runtime_ms > 0 then redis.call('ZADD', keys.runtimes, store.clock_ms + runtime_ms, t.id) end
end

return claimed_tasks

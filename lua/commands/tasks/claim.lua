-- Give a worker the oldest tasks of all jobs to which it is linked, but none of an @internal job. A claim that finds no task looks at
-- the head of each queue and writes nothing, unless it has an idempotency key. Safe to repeat for a minute: a repeat gets the same
-- tasks, or none; a repeat of the worker's last claim with a key gets them as long as the worker holds them. Each claim of a task has a
-- name, which only rises: reports say which claim they are about. After a loss no task is given until hubs have said which ended.
-- Returns {'ok', task, ...} as `job_queue.task_reply` returns them | {'settling', ms left} | {'worker'} (unknown) | {'forbidden'} (not
--   the caller's) | {'superseded'} (another process is the worker)
command.finish('tasks/claim', {
  'worker',
  'user',                -- the calling user
  'most: number',        -- most tasks
  'start',               -- '1': the tasks are running at once
  'runtime_ms: number',  -- how long the tasks may take, 0 for no limit
  'request',             -- request id
  'keyed',               -- '1': the caller named the request id, and may repeat it at any time
  'final',               -- '1': the caller gets an empty answer now, instead of waiting
  'incarnation',         -- the process that is the worker, '' when the call names none
}, function(a)
  local owner, last, held, process = unpack(redis.call('HMGET', keys.worker(a.worker), 'user', 'claim', 'tasks', 'incarnation'))
  if not owner then return {'worker'} end
  if owner ~= a.user then return {'forbidden'} end
  if a.incarnation ~= '' and process and process ~= a.incarnation then return {'superseded'} end
  local answers = {'ok'}
  local before = a.keyed == '1' and last == a.request and held or redis.call('GET', keys.claim(a.request))
  if before then
    for id, claim in string.gmatch(before, '(%x+):?(%d*)') do
      local t = tasks.read(id)
      if t and t.worker == a.worker and (claim == '' or claim == t.claim) and (t.status == 'claimed' or t.status == 'running') then
        answers[#answers + 1] = job_queue.task_reply(t)
      end
    end
    return answers
  end

  if store.settle_left_ms > 0 then return {'settling', math.ceil(store.settle_left_ms)} end  -- a hub may have yet to say what ended

  job_queue.let_in(32)
  local next_task, leave = claims.oldest_first(a.worker, a.most)
  local taken = {}
  while #taken < a.most do
    local t = next_task()
    if not t then break end
    t.worker, t.claim = a.worker, numbers.digits(math.max(store.now_us, (t.claim or 0) + 1))
    tasks.relist(t, a.start == '1' and 'running' or 'claimed')
    if a.start == '1' then
      redis.call('HSET', keys.task(t.id), 'status', t.status, 'worker', a.worker, 'last', a.request, 'claim', t.claim)
      t.status = 'claimed'  -- events tell both steps
      events.status(t)
      t.status, t.started = 'running', numbers.digits(store.now_us)
      redis.call('HSET', keys.task(t.id), 'started', t.started)
      progress.listen(t)
    else
      redis.call('HSET', keys.task(t.id), 'status', t.status, 'worker', a.worker, 'last', a.request,
        'claim', t.claim, 'claimed', store.clock_ms)
    end
    events.status(t)
    redis.call('SADD', keys.worker_tasks(a.worker), t.id)
    if a.runtime_ms > 0 then redis.call('ZADD', keys.runtimes, store.clock_ms + a.runtime_ms, t.id) end
    taken[#taken + 1] = t.id .. ':' .. t.claim
    answers[#answers + 1] = job_queue.task_reply(t)
  end
  leave()
  if #taken > 0 and a.keyed == '1' then
    redis.call('HSET', keys.worker(a.worker), 'claim', a.request, 'tasks', table.concat(taken, ','))
  end
  if #taken > 0 or (a.keyed == '1' and a.final == '1') then
    redis.call('SET', keys.claim(a.request), table.concat(taken, ','), 'EX', keys.seconds.claim)
  end
  return answers
end)

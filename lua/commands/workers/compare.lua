-- Compare the tasks that a worker names after its heartbeat with those that it holds here. A task that it does not name for longer than
-- patience_ms, which it has forgotten or never got, is queued again or gets another attempt. A task that it names and whose claim the
-- store lost a short while ago is its own again. Safe to repeat.
-- Returns {'ok', task that it does not hold any more (ended, or claimed again), ...} | {'worker'} (unknown, or not the caller's) |
--   {'superseded'} (another process is the worker)
command.change('workers/compare', {
  'worker',
  'user',                 -- the calling user
  'patience_ms: number',  -- how long a task may be missing in what the worker names
  'open',                 -- request ids of its claims without an answer yet, by line: it cannot know which tasks they took
  'incarnation',          -- the process that is the worker, '' when the call names none
  '...held',              -- per task: id, claim
}, function(a, argv)
  local record = redis.call('HMGET', keys.worker(a.worker), 'user', 'odd')
  if record[1] ~= a.user then return {'worker'} end
  if incarnations.is_superseded(a.worker, a.incarnation) then return {'superseded'} end
  local named, lost, here = {}, {'ok'}, {}
  for i = 6, #argv, 2 do named[argv[i]] = argv[i + 1] end
  local before, odd = {}, {}
  for id, claim, since in string.gmatch(record[2] or '', '(%x+):(%d+):(%d+)') do before[id .. ':' .. claim] = tonumber(since) end

  for _, id in ipairs(redis.call('SMEMBERS', keys.worker_tasks(a.worker))) do
    local t = tasks.read(id)
    here[id] = t and t.claim
    if t and t.claim and named[id] ~= t.claim and not string.find(a.open, t.last or '?', 1, true) then
      local key = id .. ':' .. t.claim
      local since = before[key] or store.clock_ms
      if store.clock_ms - since < a.patience_ms then
        odd[#odd + 1] = string.format('%s:%.0f', key, since)
      else
        history.note('task.unheld', 'task', id, 'job', t.job, 'worker', a.worker)
        if t.status == 'claimed' then outcomes.give_back(t, 'unheld:' .. key)
        else outcomes.fail(t, 'Its worker does not know of it any more', 'unheld:' .. key) end
        jobs.check_orphan(t.job)
      end
    end
  end
  if #odd > 0 then redis.call('HSET', keys.worker(a.worker), 'odd', table.concat(odd, ' '))
  elseif record[2] then redis.call('HDEL', keys.worker(a.worker), 'odd') end

  -- Give the worker a task whose claim was lost, and which no worker has claimed here.
  local was_away = store.reopened_ms and store.clock_ms - store.reopened_ms < 4 * a.patience_ms
  local function adopt(t, claim, bundle)
    job_queue.leave(t)
    if redis.call('ZREM', keys.later, t.id) == 1 then redis.call('HINCRBY', keys.job(t.job), 'later', -1) end
    tasks.relist(t, 'running')
    t.worker, t.claim, t.started, t.due = a.worker, claim, numbers.digits(store.now_us), nil
    redis.call('HDEL', keys.task(t.id), 'due')
    redis.call('HSET', keys.task(t.id), 'status', 'running', 'worker', a.worker, 'claim', claim, 'started', t.started,
      'last', 'held:' .. claim)
    redis.call('SADD', keys.worker_tasks(a.worker), t.id)
    if bundle then task_slots.bind(t, bundle) end
    if store.job_terms then limit_counts.resume(t) end
    progress.listen(t)
    history.note('task.held', 'task', t.id, 'job', t.job, 'worker', a.worker)
    events.status(t)
  end
  for id, claim in pairs(named) do
    local t = here[id] ~= claim and tasks.read(id)
    local newer = t and tonumber(claim) > tonumber(t.claim or '0') and tonumber(claim) <= store.now_us
    if t and t.status == 'pending' and newer then
      local bundle = task_slots.of_task(t)
      local may_have = (bundle or not task_slots.wish(t.job)) and redis.call('SISMEMBER', keys.worker_jobs(a.worker), t.job) == 1
      if was_away and may_have then adopt(t, claim, bundle) end
    elseif t then
      lost[#lost + 1] = id
    end
  end
  return lost
end)

-- Change the status of a task, for the user of its worker, a superuser, or, to cancel it, its submitter. Safe to repeat: the request
-- that made the last change gets the same answer. A call that names a claim counts only for that claim.
-- Returns {'ok', task} as `job_queue.task_reply` returns it | {'task'} (unknown) | {'forbidden'} | {'conflict', status} (the status
--   does not allow it, or the task was claimed again) | {'terms', status} (it needs slots or is kept by a limit: a worker alone claims it)
command.finish('tasks/move', {
  'id',
  'status',     -- the new status
  'error',      -- text of a failure, '' for none
  'user',       -- the calling user
  'superuser',  -- '1' | '0'
  'request',    -- request id
  'claim',      -- name of the claim, '' for none
  'result',     -- JSON, '' for none
}, function(a)
  local t = tasks.read(a.id)
  if not t then return {'task'} end
  a.request = a.request .. ':' .. a.status
  if tasks.was_heard(t, a.request) then return {'ok', job_queue.task_reply(t)} end  -- also when another has the task by now
  if a.claim ~= '' and a.claim ~= t.claim then return {'conflict', t.status} end
  local owner = t.worker and redis.call('HGET', keys.worker(t.worker), 'user')
  if a.superuser ~= '1' and owner ~= a.user and not (a.status == 'cancelled' and t.user == a.user) then
    -- A worker from which the task was taken back without its knowing has done nothing that is forbidden.
    local late = a.status ~= 'claimed' and a.status ~= 'cancelled' and redis.call('HGET', keys.task(a.id), 'had') == a.user
    return late and {'conflict', t.status} or {'forbidden'}
  end
  local allowed = {
    pending = {claimed = true, cancelled = true},
    claimed = {running = true, failed = true, cancelled = true},
    running = {completed = true, failed = true, cancelled = true},
  }
  if not (allowed[t.status] and allowed[t.status][a.status]) then return {'conflict', t.status} end

  if a.status == 'claimed' then
    -- Slots come with the claim of a worker alone.
    if store.job_terms and (task_slots.wish(t.job) or not limited_tasks.has_room(t)) then return {'terms', t.status} end
    blocked.take_out(t)
    if store.job_terms then
      limited_tasks.keep_out(t, true)
      limit_counts.start(t)
      limit_rooms.let_others_in()
    end
    tasks.relist(t, a.status)
    redis.call('HSET', keys.task(a.id), 'status', a.status, 'last', a.request)
    redis.call('ZADD', names.is_internal(t.job) and keys.internal_tasks or keys.ownerless, store.clock_ms, a.id)
    events.status(t)
  elseif a.status == 'running' then
    tasks.relist(t, a.status)
    t.started = numbers.digits(store.now_us)
    redis.call('HSET', keys.task(a.id), 'status', a.status, 'started', t.started, 'last', a.request)
    if names.is_internal(t.job) then redis.call('ZADD', keys.internal_tasks, store.clock_ms, a.id) end
    progress.listen(t)
    events.status(t)
  else
    local worker = (a.status == 'cancelled' or owner ~= a.user) and t.worker
    call_state.by_worker = not worker
    if a.status == 'failed' then
      outcomes.fail(t, a.error, a.request)
    else
      outcomes.close(t, a.status, a.error, a.request, a.result)
    end
    jobs.check_orphan(t.job)
    workers.tell_taken(worker)
  end
  return {'ok', job_queue.task_reply(t)}
end)

-- Take reports of a worker about tasks that it holds. Safe to repeat: a request that was taken is answered 'ok' again. A report that
-- names a claim counts only for that claim.
-- Returns {'worker'} (unknown) | {'owner'} (not the caller's) | {word per report, ...}: 'ok' | 'gone' (no such task) | 'forbidden' (the
--   worker does not hold it) | 'conflict' (its status does not allow it, or it was claimed again)
command.finish('tasks/finish', {
  'worker',
  'user',        -- the calling user
  'request',     -- request id
  '...results',  -- per report: task, status ('unfit': it fails, and no attempt can do better), error, claim or '', result (JSON) or ''
}, function(a, argv)
  local owner = redis.call('HGET', keys.worker(a.worker), 'user')
  if not owner then return {'worker'} end
  if owner ~= a.user then return {'owner'} end
  local touched, words = {}, {}
  call_state.by_worker = true
  local function take(id, status, error, claim, result)
    local unfit = status == 'unfit'
    if unfit then status = 'failed' end
    local t, request = tasks.read(id), a.request .. ':' .. status
    if not t then return 'gone' end
    if tasks.was_heard(t, request) then return 'ok' end
    if t.worker ~= a.worker then return t.worker and 'forbidden' or 'conflict' end
    if claim ~= '' and claim ~= t.claim then return 'conflict' end
    local held = t.status == 'claimed' or t.status == 'running'
    if not held or (status == 'running' and t.status == 'running') then return 'conflict' end
    if status == 'completed' and t.status == 'claimed' then return 'conflict' end
    if status == 'pending' then
      outcomes.give_back(t, request)
    elseif status == 'running' then
      tasks.relist(t, status)
      t.started = numbers.digits(store.now_us)
      redis.call('HSET', keys.task(id), 'status', status, 'started', t.started, 'last', request)
      progress.listen(t)
      events.status(t)
    else
      if status == 'failed' and not unfit then outcomes.fail(t, error, request) else outcomes.close(t, status, error, request, result) end
      touched[t.job] = true
    end
    return 'ok'
  end
  for i = 4, #argv, 5 do words[#words + 1] = take(unpack(argv, i, i + 4)) end
  for full in pairs(touched) do jobs.check_orphan(full) end
  return words
end)

-- Queue tasks again that a worker claimed and has not started within the threshold, or fail those that were queued again too often.
-- Each is checked again here. Safe to repeat: a task that was queued again is not claimed any more, and the next claim has the whole
-- threshold again. The worker that held it gets a conflict when it reports, as long as no worker has claimed it since. After that its
-- reports with tasks/finish, which name the worker, are forbidden; tasks/move knows only the user, so a report there by a worker of the
-- same user still counts.
-- Returns per task: 0 (not stuck) | 1 (queued again) | 2 (failed)
command.finish('tasks/unstick', {
  'threshold_ms: number',  -- on the hub clock
  'most: number',          -- most times that a task is queued again, 0 for any number
  'error',                 -- error of a task that fails
  '...tasks',
}, function(a, argv)
  local answers, touched = {}, {}
  local function unstick(id)
    local t = tasks.read(id)
    if not (t and t.status == 'claimed' and t.worker) or names.is_internal(t.job) then return 0 end
    local claimed, before = unpack(redis.call('HMGET', keys.task(id), 'claimed', 'unstuck'))
    if not claimed or store.clock_ms - tonumber(claimed) <= a.threshold_ms then return 0 end
    local request = 'unstuck:' .. id
    if a.most > 0 and tonumber(before or '0') >= a.most then
      history.note('task.unstuck', 'task', id, 'job', t.job, 'worker', t.worker, 'why', 'failed')
      outcomes.close(t, 'failed', a.error, request)
      touched[t.job] = true
      return 2
    end
    redis.call('HINCRBY', keys.task(id), 'unstuck', 1)
    history.note('task.unstuck', 'task', id, 'job', t.job, 'worker', t.worker, 'why', 'queued')
    outcomes.give_back(t, request)
    return 1
  end
  for i = 4, #argv do answers[i - 3] = unstick(argv[i]) end
  for full in pairs(touched) do jobs.check_orphan(full) end
  return answers
end)

-- Queue tasks again that a worker claimed and has not started within the threshold, or fail those that were brought back too
-- often. All is looked at again here. Safe to repeat: what was brought back is not claimed any more, and who claims it next has
-- all the time again. A worker that held one finds a conflict when it reports, as long as no worker has claimed it. After that its results
-- (tasks/finish) are forbidden, for they say whose they are; tasks/move knows only users, so there a worker of the same user
-- still moves it.
-- Returns per task: 0 (not stuck) | 1 (queued again) | 2 (failed)
command.finish('tasks/unstick', {
  'threshold_ms: number',  -- on the hub clock
  'most: number',          -- times a task is brought back, 0 for any number
  'error',                 -- of one that fails
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

-- Delete tasks that ended longer than keep_us ago, and then jobs that were soft-deleted longer ago and have no tasks left. Safe to
-- repeat. Returns {'ok', tasks deleted, jobs deleted, 1 | 0 (there may be more)}
command.finish('tasks/forget', {
  'keep_us: number',  -- how long tasks and soft-deleted jobs are kept
  'limit: number',    -- most tasks, and most jobs, in this call
}, function(a)
  local before = '(' .. numbers.digits(store.now_us - a.keep_us)
  local old = redis.call('ZRANGE', keys.finished, '-inf', before, 'BYSCORE', 'LIMIT', 0, a.limit)
  for _, id in ipairs(old) do
    local t = tasks.read(id)
    if t then
      tasks.unlist(t, t.status)
      redis.call('HINCRBY', keys.job(t.job), 'tasks', -1)
      redis.call('DEL', keys.task(id))
    end
    redis.call('DEL', keys.payload(id), keys.task_result(id), keys.task_log(id))
    redis.call('ZREM', keys.finished, id)
    redis.call('ZREM', keys.dead, id)
    redis.call('ZREM', keys.held_tasks, id)  -- a hub of an earlier version may have left it there
  end
  local over = redis.call('ZRANGE', keys.deleted_jobs, '-inf', before, 'BYSCORE', 'LIMIT', 0, a.limit)
  local gone = 0
  for _, full in ipairs(over) do
    local job = lenient.fields(keys.job(full), 'deleted', 'tasks')
    if not job[1] then
      redis.call('ZREM', keys.deleted_jobs, full)
      gone = gone + 1
    elseif (tonumber(job[2] or '0') or 0) <= 0 then
      jobs.drop(full)
      redis.call('ZREM', keys.deleted_jobs, full)
      gone = gone + 1
    else
      -- The job is deleted later, after its tasks.
      redis.call('ZADD', keys.deleted_jobs, 'XX', store.now_us, full)
    end
  end
  return {'ok', #old, gone, (#old == a.limit or gone == a.limit) and 1 or 0}
end)

-- Put a task where its record says that it stands; what is held by a worker that is gone fails, or is tried again. A record
-- that says too little is dropped. Safe to repeat. Returns {'ok'}
command.change('doctor/repair_task', {
  'id',
}, function(a)
  local t = tasks.read(a.id)
  local statuses = {pending = 1, claimed = 1, running = 1, completed = 1, failed = 1, cancelled = 1}
  if not (t and t.room and t.at and t.user and statuses[t.status or '']) then
    if t and t.bytes and t.user and t.room and (t.status == 'pending' or tasks.is_held(t.status)) then
      quotas.release('tasks', t.user, t.room, tonumber(t.bytes))
    end
    redis.call('DEL', keys.task(a.id), keys.payload(a.id), keys.task_result(a.id), keys.task_log(a.id), keys.task_parents(a.id))
    if t and redis.call('HEXISTS', keys.job(t.job), 'id') == 1 then
      redis.call('HINCRBY', keys.job(t.job), 'tasks', -1)
      if t.status == 'pending' and (t.due or t.after) then redis.call('HINCRBY', keys.job(t.job), 'later', -1) end
    end
    return {'ok'}
  end

  tasks.list_under(t, t.status)
  if t.status == 'pending' then
    if t.after then
      chains.look_again(t, outcomes.close)
    elseif t.due then
      redis.call('ZADD', keys.later, t.due, a.id)
    elseif not job_queue.position_of(t) then
      job_queue.enter(t)
      events.available(t)
    end
  elseif t.status == 'completed' or t.status == 'failed' or t.status == 'cancelled' then
    redis.call('HSETNX', keys.task(a.id), 'done', numbers.digits(store.now_us))
    redis.call('ZADD', keys.finished, redis.call('HGET', keys.task(a.id), 'done'), a.id)
  elseif names.is_internal(t.job) then
    redis.call('ZADD', keys.internal_tasks, 'NX', store.clock_ms, a.id)
  elseif not t.worker then
    redis.call('ZADD', keys.ownerless, 'NX', store.clock_ms, a.id)
  elseif redis.call('EXISTS', keys.worker(t.worker)) == 1 then
    redis.call('SADD', keys.worker_tasks(t.worker), a.id)
    if t.status == 'running' and not redis.call('ZSCORE', keys.silences, a.id) then progress.listen(t) end
  elseif redis.call('SISMEMBER', keys.dead_workers, t.worker) == 0 then
    outcomes.fail(t, 'Worker disconnected', 'doctor:' .. a.id)
    redis.call('HDEL', keys.task(a.id), 'worker')
    jobs.check_orphan(t.job)
  end
  return {'ok'}
end)

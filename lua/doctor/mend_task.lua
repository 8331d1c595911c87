-- Put a task where its record says that it stands; what is held by a worker that is gone fails, or is tried again. A record
-- that says too little is dropped. Safe to repeat. Returns {'ok'}
local id = ARGV[1]
-- @include settle_task
local t = read_task(id)
local statuses = {pending = 1, claimed = 1, running = 1, completed = 1, failed = 1, cancelled = 1}
if not (t and t.room and t.at and t.user and statuses[t.status or '']) then
  redis.call('DEL', key_task(id), key_payload(id))
  if t and redis.call('HEXISTS', key_job(t.job), 'id') == 1 then
    redis.call('HINCRBY', key_job(t.job), 'tasks', -1)
    if t.status == 'pending' and t.due then redis.call('HINCRBY', key_job(t.job), 'later', -1) end
  end
  return {'ok'}
end

list_under(t, t.status)
if t.status == 'pending' then
  if t.due then
    redis.call('ZADD', key_later, t.due, id)
  elseif not position_of(t) then
    queue_up(t)
    emit_available(t)
  end
elseif t.status == 'completed' or t.status == 'failed' or t.status == 'cancelled' then
  redis.call('HSETNX', key_task(id), 'done', digits(now_us))
  redis.call('ZADD', key_finished, redis.call('HGET', key_task(id), 'done'), id)
elseif is_internal(t.job) then
  redis.call('ZADD', key_internal_tasks, 'NX', clock_ms, id)
elseif not t.worker then
  redis.call('ZADD', key_ownerless, 'NX', clock_ms, id)
elseif redis.call('EXISTS', key_worker(t.worker)) == 1 then
  redis.call('SADD', key_worker_tasks(t.worker), id)
elseif redis.call('SISMEMBER', key_dead_workers, t.worker) == 0 then
  fail(t, 'Worker disconnected', 'doctor:' .. id)
  redis.call('HDEL', key_task(id), 'worker')
  check_orphan(t.job)
end
return {'ok'}

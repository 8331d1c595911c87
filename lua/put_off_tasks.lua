-- Tasks that are put off: they wait in `later` until they are due.
local put_off_tasks = {}

-- Keep a pending task out of its queue until it is due, at `due_us`.
function put_off_tasks.add(t, due_us)
  t.due = numbers.digits(due_us)
  redis.call('HSET', keys.task(t.id), 'due', t.due)
  redis.call('ZADD', keys.later, t.due, t.id)
  redis.call('HINCRBY', keys.job(t.job), 'later', 1)
end

-- Move up to `limit` tasks that are due into the queues of their jobs. Returns how many were looked at.
function put_off_tasks.let_in(limit)
  local due = redis.call('ZRANGE', keys.later, '-inf', store.now_us, 'BYSCORE', 'LIMIT', 0, limit)
  for _, id in ipairs(due) do
    redis.call('ZREM', keys.later, id)
    local t = tasks.read(id)
    if t and t.at and t.status == 'pending' then
      redis.call('HINCRBY', keys.job(t.job), 'later', -1)
      redis.call('HDEL', keys.task(id), 'due')
      job_queue.enter(t)
      limit_rooms.let_others_in()
      events.available(t)
    end
  end
  return #due
end

return put_off_tasks

-- The queues of jobs, in which pending tasks wait to be claimed.
local job_queue = {}

-- A pending task waits in the queue of its job, or in `later` until it is due. `heads` has, for each job with a queue, the score of the
-- first task in it.

-- Put a pending task into the queue of its job, and tell claims that wait for a task of the job, once in a call.
function job_queue.enter(t)
  local place = numbers.digits(t.at - 1000000 * (t.prio or 0))
  redis.call('ZADD', keys.job_queue(t.job), place, t.id)
  redis.call('ZADD', keys.heads, 'LT', place, t.job)
  call_state.notified = call_state.notified or {}
  if call_state.notified[t.job] then return end
  call_state.notified[t.job] = true
  notifications.publish(keys.job_notice(t.job), '')
end

-- Note the first task of a job's queue in `heads`, after the one before was taken out.
function job_queue.set_head(full)
  local first = redis.call('ZRANGE', keys.job_queue(full), 0, 0, 'WITHSCORES')
  if first[1] then redis.call('ZADD', keys.heads, first[2], full) else redis.call('ZREM', keys.heads, full) end
end

-- Take a pending task out of the queue of its job, if it is in it.
function job_queue.leave(t)
  if redis.call('ZREM', keys.job_queue(t.job), t.id) == 1 then job_queue.set_head(t.job) end
end

-- Return the place of a task in the queue of its job, 1 for the first; false or nil where it is not in it.
function job_queue.position_of(t)
  local rank = lenient.call(false, 'ZRANK', keys.job_queue(t.job), t.id)
  return rank and rank + 1
end

-- Keep a pending task out of its queue until it is due, at `due_us`.
function job_queue.put_off(t, due_us)
  t.due = numbers.digits(due_us)
  redis.call('HSET', keys.task(t.id), 'due', t.due)
  redis.call('ZADD', keys.later, t.due, t.id)
  redis.call('HINCRBY', keys.job(t.job), 'later', 1)
end

-- Move up to `limit` tasks that are due into the queues of their jobs. Returns how many were looked at.
function job_queue.let_in(limit)
  local due = redis.call('ZRANGE', keys.later, '-inf', store.now_us, 'BYSCORE', 'LIMIT', 0, limit)
  for _, id in ipairs(due) do
    redis.call('ZREM', keys.later, id)
    local t = tasks.read(id)
    if t and t.at and t.status == 'pending' then
      redis.call('HINCRBY', keys.job(t.job), 'later', -1)
      redis.call('HDEL', keys.task(id), 'due')
      job_queue.enter(t)
      events.available(t)
    end
  end
  return #due
end

-- The fields of a reply about a task, in order, behind its id.
local SHOWN = {'job', 'room', 'status', 'at', 'user', 'started', 'done', 'worker', 'error', 'attempt', 'max', 'prio', 'due'}

-- Return a task as the hub reads it: its id, the fields above, then payload, place in the queue, claim, and the number of tasks it
-- waits for; '' for what there is not.
function job_queue.task_reply(t)
  local reply = {t.id}
  for i, name in ipairs(SHOWN) do reply[i + 1] = t[name] or '' end
  -- The worker of a task that has ended may be removed by now: then none is shown.
  if t.done and t.worker and redis.call('EXISTS', keys.worker(t.worker)) == 0 then reply[9] = '' end
  reply[15] = redis.call('GET', keys.payload(t.id)) or '{}'
  reply[16] = t.status == 'pending' and job_queue.position_of(t) or ''
  reply[17] = t.claim or ''
  reply[18] = t.after and redis.call('SCARD', keys.task_parents(t.id)) or ''
  return reply
end

return job_queue

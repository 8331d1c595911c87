-- The queues of jobs, in which tasks wait to be claimed.
local job_queue = {}

-- Where pending tasks wait: in the queue of their job, the first of each among the heads of all queues, or in `later`
-- until they are due.

-- Put a pending task where claims find it, and notify, once a call, those who wait for one.
function job_queue.enter(t)
  local place = numbers.digits(t.at - 1000000 * (t.prio or 0))
  redis.call('ZADD', keys.job_queue(t.job), place, t.id)
  redis.call('ZADD', keys.heads, 'LT', place, t.job)
  call_state.notified = call_state.notified or {}
  if call_state.notified[t.job] then return end
  call_state.notified[t.job] = true
  notifications.publish(keys.job_notice(t.job), '')
end

-- Called after the first task was taken out of a job's queue.
function job_queue.set_head(full)
  local first = redis.call('ZRANGE', keys.job_queue(full), 0, 0, 'WITHSCORES')
  if first[1] then redis.call('ZADD', keys.heads, first[2], full) else redis.call('ZREM', keys.heads, full) end
end

-- Take a pending task out of its job's queue, in which it stands at any place or not at all.
function job_queue.leave(t)
  if redis.call('ZREM', keys.job_queue(t.job), t.id) == 1 then job_queue.set_head(t.job) end
end

function job_queue.position_of(t)
  local rank = lenient.call(false, 'ZRANK', keys.job_queue(t.job), t.id)
  return rank and rank + 1
end

-- Put a pending task off until it is due.
function job_queue.put_off(t, due_us)
  t.due = numbers.digits(due_us)
  redis.call('HSET', keys.task(t.id), 'due', t.due)
  redis.call('ZADD', keys.later, t.due, t.id)
  redis.call('HINCRBY', keys.job(t.job), 'later', 1)
end

-- Let what is due into its queue.
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

-- A task as the hub reads it: id, then the fields, then payload, place in the queue, claim, and how many tasks it waits for; ''
-- where there is none.
local SHOWN = {'job', 'room', 'status', 'at', 'user', 'started', 'done', 'worker', 'error', 'attempt', 'max', 'prio', 'due'}

function job_queue.task_reply(t)
  local reply = {t.id}
  for i, name in ipairs(SHOWN) do reply[i + 1] = t[name] or '' end
  -- The worker of a task that has ended may be gone: no sweep goes through all the tasks it ever had.
  if t.done and t.worker and redis.call('EXISTS', keys.worker(t.worker)) == 0 then reply[9] = '' end
  reply[15] = redis.call('GET', keys.payload(t.id)) or '{}'
  reply[16] = t.status == 'pending' and job_queue.position_of(t) or ''
  reply[17] = t.claim or ''
  reply[18] = t.after and redis.call('SCARD', keys.task_parents(t.id)) or ''
  return reply
end

return job_queue

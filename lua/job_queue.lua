-- The queues of jobs, in which pending tasks wait to be claimed.
-- A pending task waits there, in `later` until it is due, or beside the queue while a limit of the job keeps it. `heads` has, for each job
-- with a queue, the score of the first task in it.
local job_queue = {}

local function tell(full)
  call_state.notified = call_state.notified or {}
  if call_state.notified[full] then return end
  call_state.notified[full] = true
  notifications.publish(keys.job_notice(full), '')
end

-- Put a pending task into the queue of its job, or beside it, and tell claims that wait, once in a call. from: 'held' or 'backlog' where it
-- was beside the queue. A task that comes while there is a backlog goes behind that.
function job_queue.enter(t, from)
  if store.job_terms and not from and redis.call('SISMEMBER', keys.limit_backlogs, t.job) == 1 then
    redis.call('ZADD', keys.limit_backlog(t.job), tasks.place_of(t), t.id)
    redis.call('HINCRBY', keys.job(t.job), 'later', 1)
    return tell(t.job)
  elseif store.job_terms then
    local kept, evicted = limited_tasks.keep_out(t, from == 'held')
    if evicted then job_queue.set_head(t.job) end
    if kept then return end
  end
  local place = tasks.place_of(t)
  redis.call('ZADD', keys.job_queue(t.job), place, t.id)
  redis.call('ZADD', keys.heads, 'LT', place, t.job)
  tell(t.job)
end

-- Note the first task of a job's queue in `heads`, after the one before was taken out.
function job_queue.set_head(full)
  local first = redis.call('ZRANGE', keys.job_queue(full), 0, 0, 'WITHSCORES')
  if first[1] then redis.call('ZADD', keys.heads, first[2], full) else redis.call('ZREM', keys.heads, full) end
end

-- Take a pending task out of the queue of its job, or from beside it, if it is there.
function job_queue.leave(t)
  if limited_tasks.leave(t) then return end
  if redis.call('ZREM', keys.job_queue(t.job), t.id) == 0 then return end
  job_queue.set_head(t.job)
  if store.job_terms then limit_counts.let_go(t) end
end

-- Return the key in which a pending task waits beside the queue of its job; nil for none.
function job_queue.beside(t)
  if store.job_terms and redis.call('ZSCORE', keys.limit_backlog(t.job), t.id) then return keys.limit_backlog(t.job) end
  return t.limited and keys.limit_held(t.limited)
end

-- Return the place of a task in the queue of its job, 1 for the first; false or nil where it is not in it.
function job_queue.position_of(t)
  local rank = lenient.call(false, 'ZRANK', keys.job_queue(t.job), t.id)
  return rank and rank + 1
end

-- The fields of a reply about a task, in order, behind its id.
local SHOWN = {'job', 'room', 'status', 'at', 'user', 'started', 'done', 'worker', 'error', 'attempt', 'max', 'prio', 'due'}

-- Return a task as the hub reads it: its id, the fields above, then payload, place in the queue, claim, and the number of tasks it
-- waits for, the bundle of its slots; '' for what there is not.
function job_queue.task_reply(t)
  local reply = {t.id}
  for i, name in ipairs(SHOWN) do reply[i + 1] = t[name] or '' end
  -- The worker of a task that has ended may be removed by now: then none is shown.
  if t.done and t.worker and redis.call('EXISTS', keys.worker(t.worker)) == 0 then reply[9] = '' end
  reply[15] = redis.call('GET', keys.payload(t.id)) or '{}'
  reply[16] = t.status == 'pending' and job_queue.position_of(t) or ''
  reply[17] = t.claim or ''
  reply[18] = t.after and redis.call('SCARD', keys.task_parents(t.id)) or ''
  reply[19] = t.slots or ''
  return reply
end

return job_queue

-- Checks and repairs of jobs: each is listed as what it is, and its tasks are counted right.
local doctor_jobs = {}
local place_in = doctor_indexes.place_in

local function is_served(full, later)
  return redis.call('EXISTS', keys.job_workers(full), keys.job_queue(full)) > 0 or tonumber(later or '0') > 0
end

-- `list` is what is listed of the job under its full name, or ''. A soft-deleted job serves nothing; a queue is found by the
-- first task in it.
function doctor_jobs.check(say, _, full, list)
  local id, at, schema, deleted, later = unpack(redis.call('HMGET', keys.job(full), 'id', 'at', 'schema', 'deleted', 'later'))
  if not (id and at and schema) then
    say('record broken', redis.call('EXISTS', keys.job(full), keys.job_queue(full), keys.job_workers(full)) > 0
      or list ~= '' and redis.call('EXISTS', keys.job_tasks(list)) == 1)
  elseif deleted then
    say('unlisted', not redis.call('ZSCORE', keys.deleted_jobs, full))
    say('deleted', is_served(full, later))
  else
    say('unlisted', place_in(keys.room_jobs(names.room_of(full)), full) ~= tonumber(at))
  end
  local first = redis.pcall('ZRANGE', keys.job_queue(full), 0, 0, 'WITHSCORES')[2]  -- nil also where it is no queue
  say('head', first and first ~= redis.call('ZSCORE', keys.heads, full))
end

-- List a job as what it is, and take one back that is soft-deleted and serves workers or tasks. A record that says too little
-- becomes that of a soft-deleted job with the id `new`, for a worker to register it and for its tasks to be forgotten; but not
-- while workers or tasks need its schema, which is lost.
function doctor_jobs.repair(full, new)
  job_queue.set_head(full)
  local id, at, schema, deleted, later = unpack(redis.call('HMGET', keys.job(full), 'id', 'at', 'schema', 'deleted', 'later'))
  local room, served = names.room_of(full), is_served(full, later)
  if not (id and at and schema) then
    if served then return end
    at = at or numbers.digits(store.next_us())
    redis.call('HSET', keys.job(full), 'id', id or new, 'at', at, 'schema', '{}', 'digest', '', 'deleted', numbers.digits(store.now_us))
    redis.call('ZADD', keys.deleted_jobs, store.now_us, full)
    redis.call('ZREM', keys.room_jobs(room), full)
  elseif deleted and served then
    jobs.revive(full)
    events.jobs(room)
  elseif deleted then
    redis.call('ZADD', keys.deleted_jobs, deleted, full)
  else
    redis.call('ZADD', keys.room_jobs(room), at, full)
  end
end

-- Write down how many tasks a job has and how many are put off, as they were counted while `was_tasks` and `was_later` stood
-- there; where other numbers stand there by now, the count is out of date.
function doctor_jobs.repair_count(full, tasks_now, later, was_tasks, was_later)
  local now = redis.call('HMGET', keys.job(full), 'tasks', 'later', 'id')
  if not now[3] or (now[1] or '0') ~= was_tasks or (now[2] or '0') ~= was_later then return end
  redis.call('HSET', keys.job(full), 'tasks', tasks_now, 'later', later)
  jobs.check_orphan(full)
end

-- Write down what an owner holds of a kind, as it was counted while `was` stood there.
function doctor_jobs.repair_holding(kind, owner, was, held)
  if tonumber(redis.call('ZSCORE', keys.used(kind), owner) or '0') ~= tonumber(was) then return end
  if held == '0' then redis.call('ZREM', keys.used(kind), owner) else redis.call('ZADD', keys.used(kind), held, owner) end
end

return doctor_jobs

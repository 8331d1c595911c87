-- Checks and repairs of jobs: each must be listed by its state, and the numbers of its tasks must be right.
local doctor_jobs = {}
local place_in = doctor_indexes.place_in

-- Return whether a job has workers, tasks in its queue or tasks that are put off.
local function is_served(full, later)
  return redis.call('EXISTS', keys.job_workers(full), keys.job_queue(full)) > 0 or tonumber(later or '0') > 0
end

-- Check a job. `list` is a key part of hub:job_tasks under which its tasks may be listed, or ''. A soft-deleted job must have no worker
-- and no pending task. The first task of its queue must be noted among the heads of all queues.
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
  local first = redis.pcall('ZRANGE', keys.job_queue(full), 0, 0, 'WITHSCORES')[2]  -- nil also where the key has another type
  say('head', first and first ~= redis.call('ZSCORE', keys.heads, full))
  doctor_limits.check_job(say, full)
end

-- List a job by its state, and take back a soft-deleted job that has workers or pending tasks. A record without id, time or schema
-- becomes that of a soft-deleted job, with the id `new` where it has none: a worker can register it, and its tasks are forgotten in
-- time. It is left alone while workers or tasks need its schema, which is lost.
function doctor_jobs.repair(full, new)
  job_queue.set_head(full)
  doctor_limits.repair_job(full)
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

-- Store how many tasks a job has and how many of them are put off, as the doctor counted. `was_tasks` and `was_later` are the numbers
-- that stood there at the count; nothing is written where they have changed since.
function doctor_jobs.repair_count(full, tasks_now, later, was_tasks, was_later)
  local now = redis.call('HMGET', keys.job(full), 'tasks', 'later', 'id')
  if not now[3] or (now[1] or '0') ~= was_tasks or (now[2] or '0') ~= was_later then return end
  redis.call('HSET', keys.job(full), 'tasks', tasks_now, 'later', later)
  jobs.check_orphan(full)
end

-- Store how much an owner (user or room) holds of a kind, as the doctor counted; nothing is written where the number is no longer
-- `was`. A room that holds nothing more is closed. Of the kind 'rooms' a room itself says that it is open: '1'.
function doctor_jobs.repair_holding(kind, owner, was, held)
  local room = held == '0' and string.match(owner, '^room:(.*)$')
  if kind == 'rooms' and room then return quotas.close(room) end
  if tonumber(redis.call('ZSCORE', keys.used(kind), owner) or '0') ~= tonumber(was) then return end
  if held == '0' then redis.call('ZREM', keys.used(kind), owner) else redis.call('ZADD', keys.used(kind), held, owner) end
  if room then quotas.close(room) end
end

return doctor_jobs

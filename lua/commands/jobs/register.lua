-- Register a job for a worker: create the job, take a soft-deleted one back with the given schema, or join an active one whose schema
-- is the same. A refusal changes nothing. Safe to repeat; a hub that repeats it after a loss changes nothing for a worker that has the
-- job.
-- Returns {'created' | 'joined', id of the job, worker, {worker of the job, ...}, the process that was the worker before, if any}
--   | {'conflict'} (the job is active with another schema) | {'slow', how long} (checking a payload against the schema takes too long)
--   | {'quota', ...} (as `quotas.take` returns it) | {'worker'} (unknown, or not the caller's) | {'superseded'} (another process is the
--   worker now)
command.add('jobs/register', {
  'full',           -- full name of the job
  'id',             -- the id of the job if it is new
  'schema',
  'digest',         -- digest of the schema, equal for equal schemas
  'worker',
  'user',           -- the calling user
  'made_for',       -- the worker is 'new' or 'known'; 'told': a hub repeats the call to a store that may have lost it
  'incarnation',    -- the process that is the worker, '' when the call names none
  'attempts',       -- attempts of tasks whose submit names no number
  'backoff_ms',     -- pause after the first failed attempt of such a task
  'result_schema',  -- schema of the results of its tasks, '' for none
  'validate',       -- '1': the payload of a task has to fit the schema
  'needs',          -- the slots that each of its tasks needs, as bundle_wishes.read wants it, '' for none
  'limits',         -- JSON of the limits on its tasks, as of job_limits.of, '' for none
}, function(a)
  local job = redis.call('HMGET', keys.job(a.full), 'id', 'digest', 'deleted', 'back')
  if job[1] and not job[3] and job[2] ~= a.digest then return {'conflict'} end
  local slow = a.schema ~= '{}' and a.made_for ~= 'told' and redis.call('GET', keys.slow_schema(a.digest))
  if slow then return {'slow', slow} end
  local owner = redis.call('HGET', keys.worker(a.worker), 'user')
  if owner ~= a.user and not (a.made_for == 'new' and not owner) then return {'worker'} end
  local before
  if a.made_for == 'told' then
    if incarnations.is_superseded(a.worker, a.incarnation) then return {'superseded'} end
    if redis.call('SISMEMBER', keys.worker_jobs(a.worker), a.full) == 1 then
      return {'joined', job[1], a.worker, redis.call('SMEMBERS', keys.job_workers(a.full))}
    end
  elseif owner and incarnations.is_past(a.worker, a.incarnation) then return {'superseded'} end
  local refusal = jobs.count_schemas(a.full, a.user, #a.schema + #a.result_schema, a.made_for == 'told')
  if refusal then return refusal end
  if owner and a.made_for ~= 'told' then
    local _, other = incarnations.take_over(a.worker, a.incarnation)
    before = other
  end

  local joined = job[1] and not job[3] and job[1] ~= a.id and job[4] ~= a.id
  if not job[1] then
    local at = numbers.digits(store.next_us())
    redis.call('HSET', keys.job(a.full), 'id', a.id, 'at', at, 'schema', a.schema, 'digest', a.digest)
    redis.call('ZADD', keys.room_jobs(names.room_of(a.full)), at, a.full)
  elseif jobs.revive(a.full) then
    redis.call('HSET', keys.job(a.full), 'schema', a.schema, 'digest', a.digest, 'back', a.id)  -- `back` lets a repeat be recognised
  end
  if a.attempts == '1' then
    redis.call('HDEL', keys.job(a.full), 'attempts', 'backoff_ms')
  else
    redis.call('HSET', keys.job(a.full), 'attempts', a.attempts, 'backoff_ms', a.backoff_ms)
  end
  if a.result_schema == '' then
    redis.call('HDEL', keys.job(a.full), 'result')
  else
    redis.call('HSET', keys.job(a.full), 'result', a.result_schema)
  end
  if a.validate == '1' and a.schema ~= '{}' then
    redis.call('HSET', keys.job(a.full), 'validate', a.digest)
  else
    redis.call('HDEL', keys.job(a.full), 'validate')
  end
  if a.needs == '' then redis.call('HDEL', keys.job(a.full), 'needs') else redis.call('HSET', keys.job(a.full), 'needs', a.needs) end
  if a.needs ~= '' then redis.call('HSET', keys.store, 'job_terms', '1') end
  if limit_changes.apply(a.full, a.limits) then limit_rooms.let_in_due(0) end
  if not owner then
    workers.create(a.worker, a.user)
    incarnations.take_over(a.worker, a.incarnation)
  end
  workers.link(a.worker, a.full)
  events.jobs(names.room_of(a.full))
  return {joined and 'joined' or 'created', job[1] or a.id, a.worker, redis.call('SMEMBERS', keys.job_workers(a.full)), before}
end)

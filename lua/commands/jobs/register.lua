-- Register a job for a worker: create it, take a soft-deleted one back under the schema given, or join an active one whose
-- schema is the same. A refusal leaves no trace. Safe to repeat; what a hub says again to a worker that has the job changes nothing.
-- Returns {'created' | 'joined', id, worker, workers, perhaps the process that was the worker before} | {'conflict'}
--   | {'slow', what it took} (checking against the schema took too long)
--   | {'quota', ...} (as `quotas.take` says)
--   | {'worker'} (unknown, or not the caller's) | {'superseded'} (the process was the worker, and another is)
command.add('jobs/register', {
  'full',
  'id',           -- for a job that is new
  'schema',
  'digest',       -- the same for schemas that are equal
  'worker',
  'user',
  'made_for',     -- a worker that is 'new' or 'known'; 'told': a hub says it again to a store that may have lost it
  'incarnation',  -- the process that is the worker, '' where it does not say so
  'attempts',     -- of its tasks that say nothing of that
  'backoff_ms',
  'result_schema', -- of what its tasks come to, '' where nothing is said of that
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
    redis.call('HSET', keys.job(a.full), 'schema', a.schema, 'digest', a.digest, 'back', a.id)  -- a repeat is to know its work
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
  if not owner then
    workers.create(a.worker, a.user)
    incarnations.take_over(a.worker, a.incarnation)
  end
  workers.link(a.worker, a.full)
  events.jobs(names.room_of(a.full))
  return {joined and 'joined' or 'created', job[1] or a.id, a.worker, redis.call('SMEMBERS', keys.job_workers(a.full)), before}
end)

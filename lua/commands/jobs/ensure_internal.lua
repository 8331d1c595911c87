-- Register an @internal job from the configuration, replacing its schema, and note that an executor runs it. Safe to repeat. Returns
-- {'ok'}
command.finish('jobs/ensure_internal', {
  'full',    -- full name of the job
  'id',      -- the id of the job if it is new
  'schema',
  'digest',  -- digest of the schema
}, function(a)
  if redis.call('EXISTS', keys.job(a.full)) == 0 then
    local at = numbers.digits(store.next_us())
    redis.call('HSET', keys.job(a.full), 'id', a.id, 'at', at)
    redis.call('ZADD', keys.room_jobs(names.room_of(a.full)), at, a.full)
  end
  jobs.revive(a.full)
  redis.call('HSET', keys.job(a.full), 'schema', a.schema, 'digest', a.digest)
  redis.call('SADD', keys.executors, a.full)
  events.jobs(names.room_of(a.full))
  return {'ok'}
end)

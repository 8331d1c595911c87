-- Note that checking a small payload against a schema took too long: jobs/register refuses the schema from now on, for a day. Safe to
-- repeat. Returns {'ok'}
command.change('jobs/mark_slow', {
  'digest',  -- digest of the schema
  'said',    -- how long it took, as text for people
}, function(a)
  redis.call('SET', keys.slow_schema(a.digest), a.said, 'EX', keys.seconds.slow_schema)
  return {'ok'}
end)

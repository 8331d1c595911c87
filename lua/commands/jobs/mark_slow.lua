-- Remember that checking one small submit against a schema took too long: it is refused when it is registered next. Safe to
-- repeat. Returns {'ok'}
command.change('jobs/mark_slow', {
  'digest',  -- of the schema
  'said',    -- what it took, for people
}, function(a)
  redis.call('SET', keys.slow_schema(a.digest), a.said, 'EX', keys.seconds.slow_schema)
  return {'ok'}
end)

-- Check whether the number of waiters kept for a run is right. Changes nothing.
-- Returns per run {} | {'miscounted'}
command.read_unclocked('doctor/check_runs', {
  '...runs',
}, function(_, argv)
  local answers = {}
  for i = 1, #argv do
    local count = hubs.waiters_of(argv[i])
    local said = tonumber(redis.call('HGET', keys.pending, argv[i]) or '0')
    answers[i] = count and count ~= said and {'miscounted'} or {}
  end
  return answers
end)

-- Look whether the number of waiters kept for a run is right. Changes nothing.
-- Returns per run {} | {'miscounted'}
-- @rest runs
-- @include waiters_of
local answers = {}
for i = 1, #ARGV do
  local waiters = waiters_of(ARGV[i])
  local said = tonumber(redis.call('HGET', key_pending, ARGV[i]) or '0')
  answers[i] = waiters and waiters ~= said and {'miscounted'} or {}
end
return answers

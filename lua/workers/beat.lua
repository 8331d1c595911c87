-- Take the heartbeats of many workers at once; each is answered on its own. Safe to repeat.
-- Returns per worker: the time of this beat in microseconds, later than that of the one before | 0 (unknown)
--   | 1 (not the caller's)
-- @rest beats                        per beat: worker, user
-- @include instant
local answers, readings = {}, {}
for i = 1, #ARGV, 2 do
  local worker = redis.call('HMGET', key_worker(ARGV[i]), 'user', 'beat')
  if not worker[1] then
    answers[#answers + 1] = 0
  elseif worker[1] ~= ARGV[i + 1] then
    answers[#answers + 1] = 1
  else
    local beat = digits(math.max(now_us, tonumber(worker[2]) + 1))
    redis.call('HSET', key_worker(ARGV[i]), 'beat', beat)
    readings[#readings + 1] = clock_ms
    readings[#readings + 1] = ARGV[i]
    answers[#answers + 1] = beat
  end
end
if #readings > 0 then redis.call('ZADD', key_worker_beats, unpack(readings)) end
return answers

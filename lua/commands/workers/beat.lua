-- Take the heartbeats of many workers; each has an answer of its own. Safe to repeat.
-- Returns per worker: the time of this heartbeat in microseconds as text, later than that of the one before | 0 (unknown) | 1 (not the
--   caller's)
command.finish('workers/beat', {
  '...beats',  -- per heartbeat: worker, user
}, function(_, argv)
  local answers, readings = {}, {}
  for i = 1, #argv, 2 do
    local worker = redis.call('HMGET', keys.worker(argv[i]), 'user', 'beat', 'lends')
    if not worker[1] then
      answers[#answers + 1] = 0
    elseif worker[1] ~= argv[i + 1] then
      answers[#answers + 1] = 1
    else
      local beat = numbers.digits(math.max(store.now_us, tonumber(worker[2]) + 1))
      redis.call('HSET', keys.worker(argv[i]), 'beat', beat)
      readings[#readings + 1] = store.clock_ms
      readings[#readings + 1] = argv[i]
      answers[#answers + 1] = beat
      if worker[3] then task_renewals.renew(argv[i]) end
    end
  end
  if #readings > 0 then redis.call('ZADD', keys.worker_beats, unpack(readings)) end
  return answers
end)

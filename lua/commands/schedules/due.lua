-- The schedules that are due, the one that is so for longest first; nothing changes.
-- Returns {now in microseconds, schedule, ...}
command.read('schedules/due', {
  'limit: number',
}, function(a)
  local answers = {numbers.digits(store.now_us)}
  for _, id in ipairs(redis.call('ZRANGE', keys.schedules, '-inf', store.now_us, 'BYSCORE', 'LIMIT', 0, a.limit)) do
    local s = schedules.read(id)
    if s then answers[#answers + 1] = schedules.reply(s) end
  end
  return answers
end)

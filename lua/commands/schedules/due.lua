-- The schedules that are due or to be looked at again, the one that is so for longest first; nothing changes. Of one that
-- has no record, or a key that no hub wrote, there are room and name alone.
-- Returns {now in microseconds, schedule, ...}
command.read('schedules/due', {
  'limit: number',
}, function(a)
  local answers = {numbers.digits(store.now_us)}
  for _, id in ipairs(redis.call('ZRANGE', keys.schedules, '-inf', store.now_us, 'BYSCORE', 'LIMIT', 0, a.limit)) do
    answers[#answers + 1] = schedules.reply(schedules.read(id) or schedules.named(id))
  end
  return answers
end)

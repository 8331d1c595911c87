-- Read schedules that are due, or that were put aside and are to be looked at again, longest due first; changes nothing. A schedule
-- without a record, or under a key that no hub wrote, has only room and name. Returns {now in microseconds, {field, ...}, ...} as
-- `schedules.reply` returns the fields
command.read('schedules/due', {
  'limit: number',  -- most schedules
}, function(a)
  local answers = {numbers.digits(store.now_us)}
  for _, id in ipairs(redis.call('ZRANGE', keys.schedules, '-inf', store.now_us, 'BYSCORE', 'LIMIT', 0, a.limit)) do
    answers[#answers + 1] = schedules.reply(schedules.read(id) or schedules.named(id))
  end
  return answers
end)

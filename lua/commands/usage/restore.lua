-- Take figures of a day from a hub after the store was lost. They only rise, so for each name the higher figure holds: safe to repeat, and
-- harmless when several hubs call, or one calls late. Returns {'ok', names whose figures rose}
command.finish('usage/restore', {
  'day_and_kind',
  'until_s',     -- until when the figures are kept, in s since 1970
  '...figures',  -- per name: the name, its figures
}, function(a, argv)
  local key, risen = keys.usage_day(a.day_and_kind), 0
  for i = 3, #argv, 2 do
    local before, best = redis.call('HGET', key, argv[i]), {}
    local known = string.gmatch(before or '', '%d+')
    for figure in string.gmatch(argv[i + 1], '%d+') do
      best[#best + 1] = numbers.digits(math.max(tonumber(figure), tonumber(known() or '0')))
    end
    local text = table.concat(best, ' ')
    if text ~= before then
      redis.call('HSET', key, argv[i], text)
      risen = risen + 1
    end
  end
  redis.call('EXPIREAT', key, a.until_s)
  return {'ok', risen}
end)

-- Read the figures of days at one instant; changes nothing. Returns per day and kind {name, figures, ...}
command.read('usage/read', {
  '...days_and_kinds',
}, function(_, argv)
  local found = {}
  for i = 1, #argv do found[i] = lenient.call({}, 'HGETALL', keys.usage_day(argv[i])) end
  return found
end)

-- Read schedules; changes nothing. Returns per schedule {field, ...} as `schedules.reply` returns them | 0 (unknown)
command.read('schedules/describe', {
  '...schedules',
}, function(_, argv)
  local answers = {}
  for i, id in ipairs(argv) do
    local s = schedules.read(id)
    answers[i] = s and schedules.reply(s) or 0
  end
  return answers
end)

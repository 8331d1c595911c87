-- Read the jobs of tasks, to count the tasks of each job; changes nothing.
-- Returns per task two texts: the full name of its job or '' (unknown), '1' (it is put off or waits for other tasks) | '0'
command.read('doctor/count', {
  '...tasks',
}, function(_, argv)
  local answers = {}
  for i, id in ipairs(argv) do
    local t = lenient.fields(keys.task(id), 'job', 'status', 'due', 'after')
    answers[2 * i - 1] = t[1] or ''
    answers[2 * i] = t[2] == 'pending' and (t[3] or t[4]) and '1' or '0'
  end
  return answers
end)

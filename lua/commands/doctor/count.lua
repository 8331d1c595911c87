-- Read the jobs of tasks, to count the tasks of each job; changes nothing.
-- Returns per task two texts: the full name of its job or '' (unknown), '1' (it is put off, waits for other tasks, or waits
-- beside the queue) | '0'
command.read('doctor/count', {
  '...tasks',
}, function(_, argv)
  local answers = {}
  for i, id in ipairs(argv) do
    local t = lenient.fields(keys.task(id), 'job', 'status', 'due', 'after', 'limited')
    answers[2 * i - 1] = t[1] or ''
    local put_off = t[3] or t[4] or t[5] or t[1] and lenient.call(false, 'ZSCORE', keys.limit_backlog(t[1]), id)
    answers[2 * i] = t[2] == 'pending' and put_off and '1' or '0'
  end
  return answers
end)

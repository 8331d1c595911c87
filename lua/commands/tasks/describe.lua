-- Read tasks; changes nothing. Returns per task its fields as `job_queue.task_reply` returns them | 0 (unknown)
command.read('tasks/describe', {
  '...ids',
}, function(_, argv)
  local answers = {}
  for i, id in ipairs(argv) do
    local t = tasks.read(id)
    answers[i] = t and job_queue.task_reply(t) or 0
  end
  return answers
end)

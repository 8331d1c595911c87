-- Read a task with its result and its progress; changes nothing. Lists use `tasks/describe`, which reads less.
-- Returns {'ok', task as `job_queue.task_reply` returns it, result (JSON) or '', progress as `progress.reply` returns it, {open task
--   that it waits for, ...}} | {'task'} (unknown)
command.read('tasks/show', {
  'id',
}, function(a)
  local t = tasks.read(a.id)
  if not t then return {'task'} end
  return {'ok', job_queue.task_reply(t), redis.call('GET', keys.task_result(a.id)) or '', progress.reply(a.id),
    t.after and redis.call('SMEMBERS', keys.task_parents(a.id)) or {}}
end)

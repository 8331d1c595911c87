-- Read a task with its result and its progress; nothing changes. Lists use `tasks/describe`, which reads less.
-- Returns {'ok', task, result (JSON, '' for none), {share, message, when it said so, its silence, text of its log, ...},
--   {task it waits for, ...}}
--   | {'task'} (unknown)
command.read('tasks/show', {
  'id',
}, function(a)
  local t = tasks.read(a.id)
  if not t then return {'task'} end
  return {'ok', job_queue.task_reply(t), redis.call('GET', keys.task_result(a.id)) or '', progress.reply(a.id),
    t.after and redis.call('SMEMBERS', keys.task_parents(a.id)) or {}}
end)

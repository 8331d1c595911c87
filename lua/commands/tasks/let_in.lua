-- Move tasks that were put off and are due into the queues of their jobs. Safe to repeat. Returns {'ok', number of tasks that were due}
command.finish('tasks/let_in', {
  'limit: number',  -- most tasks in this call
}, function(a)
  return {'ok', job_queue.let_in(a.limit)}
end)

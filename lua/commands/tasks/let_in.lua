-- Let tasks that were put off and are due into their queues. Safe to repeat. Returns {'ok', how many}
command.finish('tasks/let_in', {
  'limit: number',
}, function(a)
  return {'ok', job_queue.let_in(a.limit)}
end)

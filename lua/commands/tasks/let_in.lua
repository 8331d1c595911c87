-- Move tasks that were put off and are due into the queues of their jobs. Safe to repeat. Returns {'ok', number of tasks that were due}
command.finish('tasks/let_in', {
  'limit: number',  -- most tasks in this call
}, function(a)
  limit_rooms.let_in_due(a.limit)
  return {'ok', put_off_tasks.let_in(a.limit)}
end)

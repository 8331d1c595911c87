-- Give slots back for which a worker has waited, unless a task has them by now. Safe to repeat. Returns {'ok'}
command.finish('tasks/give_up_slots', {
  'bundle',
}, function(a)
  task_slots.give_up(a.bundle)
  return {'ok'}
end)

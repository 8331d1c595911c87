-- Serve the queues of labels again, as far as possible: a cap has changed, or slots may have appeared unnoticed. Safe to repeat.
-- Returns {'ok', waiters served}
command.change('queue/review', {
  '...labels',
}, function(_, argv)
  for i = 1, #argv do serving.label(argv[i], true) end
  serving.opened()
  return {'ok', call_state.served}
end)

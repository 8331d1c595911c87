-- Serve waiters from the free slots of a pool. Safe to repeat. Returns {'ok'}
command.change('doctor/repair_wait', {
  'pool',
}, function(a)
  serving.pool(a.pool)
  return {'ok'}
end)

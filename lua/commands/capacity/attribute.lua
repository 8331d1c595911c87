-- Note for which test a slot is used, and for which run where none is noted yet. Safe to repeat. Returns {'ok'}
command.change('capacity/attribute', {
  'slot',
  'test',
  'run',  -- '' where the caller names none
}, function(a)
  redis.call('SET', keys.browser_test(a.slot), a.test, 'EX', keys.seconds.browser_test)
  if a.run ~= '' then redis.call('SET', keys.browser_run(a.slot), a.run, 'EX', keys.seconds.browser_run, 'NX') end
  return {'ok'}
end)

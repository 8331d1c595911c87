-- Ask nodes to withdraw, drain and rebuild their slots. Safe to repeat. Returns {'ok'}
command.change('nodes/ask_upgrade', {
  'seconds',   -- for how many seconds the nodes are asked
  '...parts',  -- key parts of the ids of the nodes
}, function(a, argv)
  for i = 2, #argv do redis.call('SET', keys.node_upgrade(argv[i]), '1', 'EX', a.seconds) end
  return {'ok'}
end)

-- Take from a hub, after the store was lost, the rules of pools as it read them last, if they are later than those that the store has. Safe
-- to repeat. Returns {'taken'} | {'kept'}
command.finish('capacity/recall_rules', {
  'number',    -- of the last change that the hub knows
  '...rules',  -- per rule: pattern, JSON
}, function(a, argv)
  if a.number == '' or not numbers.above(a.number, store.rules) then return {'kept'} end
  redis.call('DEL', keys.rules)
  for i = 2, #argv, 2 do redis.call('HSET', keys.rules, argv[i], argv[i + 1]) end
  pool_rules.note(a.number)
  return {'taken'}
end)

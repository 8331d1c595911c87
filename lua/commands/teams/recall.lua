-- Take from a hub, after the store was lost, the rows of teams as it read them last, if they are later than those that the store has. Safe
-- to repeat. Returns {'taken'} | {'kept'}
command.finish('teams/recall', {
  'number',   -- of the last change that the hub knows
  '...rows',  -- per row: pattern and team with a tab between, JSON
}, function(a, argv)
  local before = teams.all()
  if a.number == '' or not numbers.above(a.number, redis.call('HGET', keys.store, 'teams_number') or '') then return {'kept'} end
  redis.call('DEL', keys.teams)
  for i = 2, #argv, 2 do redis.call('HSET', keys.teams, argv[i], argv[i + 1]) end
  team_changes.note(a.number, before)
  return {'taken'}
end)

-- Give back the turn at the records of a source, if this pass has it. Safe to repeat. Returns {'ok'}
command.finish('recovery/end', {
  'source',
  'hub_id',   -- the calling hub
  'pass_id',  -- id of the pass
}, function(a)
  local turn = keys.zombie_turn(a.source)
  if redis.call('GET', turn) == a.hub_id .. ' ' .. a.pass_id then redis.call('DEL', turn) end
  return {'ok'}
end)

-- Let the list of draining nodes, and that of their deadlines, say what the node is told with its beats. Safe to repeat.
-- Returns {'ok'}
command.change_unclocked('doctor/repair_drain', {
  'id',
  'part',
}, function(a)
  if redis.call('SISMEMBER', keys.nodes, a.id) == 1 and drains.holds_back(a.part) then
    redis.call('SADD', keys.draining, a.id)
  else
    redis.call('SREM', keys.draining, a.id)
    redis.call('ZREM', keys.drain_deadlines, a.id)
  end
  return {'ok'}
end)

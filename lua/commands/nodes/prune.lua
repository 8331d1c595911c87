-- Drop further slots of a node that was removed. Safe to repeat. Returns {'ok', slots dropped, {slot whose lease ended, ...}, slots
-- left}
command.finish('nodes/prune', {
  'part',           -- key part of the id of the node
  'limit: number',  -- most slots dropped in this call
}, function(a)
  if redis.call('HEXISTS', keys.leaving, a.part) == 0 then return {'ok', 0, {}, 0} end
  local dropped, ended, left = nodes.prune(a.part, a.limit)
  serving.opened()
  return {'ok', dropped, ended, left}
end)

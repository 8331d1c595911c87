-- Remove a node because it leaves or an operator removes it: its slots are withdrawn and its leases end, at once. Safe to repeat. A
-- process that is not the node, because another one has taken over, removes nothing.
-- Returns {'left' | 'unknown' (not registered) | 'superseded', slots dropped, {slot whose lease ended, ...}, slots left for
--   nodes/prune}
command.finish('nodes/leave', {
  'id',             -- raw id of the node
  'part',           -- key part of the id of the node
  'limit: number',  -- most slots dropped in this call
  'incarnation',    -- of the calling process, '' of plain clients and of operators
}, function(a)
  local known = redis.call('SISMEMBER', keys.nodes, a.id) == 1
  local current, returned = unpack(redis.call('HMGET', keys.orders(a.part), 'incarnation', 'returned'))
  if node_processes.word(a.part, a.incarnation, current) ~= 'own' then return {'superseded', 0, {}, 0} end
  if known and a.incarnation ~= '' and current then node_processes.retire(a.part, current) end
  local was_kept = store.reporting and known and current and returned ~= store.generation
  if was_kept then node_processes.retire(a.part, 'left ' .. store.generation) end  -- the store lost no process of this node
  redis.call('ZREM', keys.drain_deadlines, a.id)
  if known then history.note('node.left', 'node', a.id) end
  local dropped, ended, left = nodes.remove(a.id, a.part, a.limit)
  serving.opened()
  return {known and 'left' or 'unknown', dropped, ended, left}
end)

-- Suspects: nodes that have been silent for so long that their slots are held back.
local suspects = {}

-- Return whether a node is suspect: it has been silent for half its timeout, on the hub clock. Nodes that never sent a heartbeat
-- through a hub are never suspect; the sweeper alone judges them. After the server was restarted, a slot may have a lease that the
-- restart has lost: for one timeout the node is suspect for each slot that it has not reported. `reported` is the generation of the
-- store in which it reported the slot last.
function suspects.is_suspect(node, part, reported)
  local reading = store.node_timeout_ms and redis.call('ZSCORE', keys.beats, node)
  if not reading then return false end
  if store.reporting and reported ~= store.generation then return true end
  local silent_ms = store.clock_ms - reading
  if silent_ms <= store.node_timeout_ms / 2 then return false end
  -- A registered node may also stay alive by writing its alive key, for 90 s each time: that leaves more time than its registration
  -- (90 s as well), its last heartbeat or a sweep (30 s) can have left.
  return redis.call('PTTL', keys.node_alive(part)) <= math.max(math.max(store.node_timeout_ms, 90000) - silent_ms, 30000) + 1000
end

-- Hold back a slot that is in no list because its node is suspect. The next heartbeat of the node offers it again, or its report.
function suspects.hold_aside(slot, part, node)
  redis.call('HSET', keys.slot(slot), 'place', 'held')
  redis.call('SADD', keys.aside(part), slot)
  redis.call('SADD', keys.suspects, node)
  if redis.call('HSET', keys.orders(part), 'suspect', '1') == 1 then history.note('node.suspect', 'node', node) end
end

return suspects

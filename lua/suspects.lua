-- Suspects: nodes that have been silent for so long that their slots are held back.
local suspects = {}

-- A node that has been silent for half its timeout, on the hub clock, is lent from no more until it beats again.
-- Nodes that never beat through a hub are judged by the sweeper alone.
-- After the server was restarted a slot may have been lent in what the restart lost: its node is to report it first,
-- for which it has one timeout. `reported` is the generation of the store in which it last did.
function suspects.is_suspect(node, part, reported)
  local reading = store.node_timeout_ms and redis.call('ZSCORE', keys.beats, node)
  if not reading then return false end
  if store.reporting and reported ~= store.generation then return true end
  local silent_ms = store.clock_ms - reading
  if silent_ms <= store.node_timeout_ms / 2 then return false end
  -- A node that registered with a hub may beat by writing its alive key, for 90 s each time: that is more than what its
  -- registration, for 90 s as well, or its last beat can have left of it, and more than the 30 s of a sweep.
  return redis.call('PTTL', keys.node_alive(part)) <= math.max(math.max(store.node_timeout_ms, 90000) - silent_ms, 30000) + 1000
end

-- Hold back a slot that is in no list because its node is suspect; the node's next beat puts it back, or its report.
function suspects.hold_aside(slot, part, node)
  redis.call('HSET', keys.slot(slot), 'place', 'held')
  redis.call('SADD', keys.aside(part), slot)
  redis.call('SADD', keys.suspects, node)
  if redis.call('HSET', keys.orders(part), 'suspect', '1') == 1 then history.note('node.suspect', 'node', node) end
end

return suspects

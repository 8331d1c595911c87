-- The private indexes of nodes and slots, as the doctor sees them.
local indexes = {}

-- The private indexes by kind; `owner` is the label, run or node that an index is about, `member` a slot or a node.
indexes.zsets = {beats = 1, drain_deadlines = 1, deadlines = 1, in_flight = 1, run = 1}

indexes.hashes = {lent = 1, orders = 1}

function indexes.of(kind, owner)
  local single = {beats = keys.beats, deadlines = keys.deadlines, draining = keys.draining,
    drain_deadlines = keys.drain_deadlines, suspects = keys.suspects}
  local many = {in_flight = keys.in_flight, run = keys.run, lent = keys.lent, orders = keys.orders, node_slots = keys.node_slots,
    pool_slots = keys.pool_slots}
  return single[kind] or many[kind](owner)
end

function indexes.lists(kind, owner, member)
  if kind == 'orders' then member = 'recycle:' .. member end
  local index = indexes.of(kind, owner)
  if indexes.zsets[kind] then return redis.call('ZSCORE', index, member) and true or false end
  return redis.call(indexes.hashes[kind] and 'HEXISTS' or 'SISMEMBER', index, member) == 1
end

-- Whether a member belongs into an index, by the record and the session of the slot it names, or by the set of nodes.
function indexes.belongs(kind, owner, member)
  local of_nodes = {beats = 1, draining = 1, drain_deadlines = 1, suspects = 1}
  if of_nodes[kind] then return redis.call('SISMEMBER', keys.nodes, member) == 1 end
  local record = redis.call('HMGET', keys.slot(member), 'place', 'part', 'pool', 'label', 'run')
  local lent = record[1] == 'lent'
  if kind == 'lent' then return lent and record[2] == owner end
  if kind == 'node_slots' or kind == 'orders' then return record[2] == owner end
  if kind == 'pool_slots' then return record[3] == owner end
  if kind == 'deadlines' then return lent or redis.call('EXISTS', keys.session(member)) == 1 end
  local session = redis.call('HMGET', keys.session(member), 'labelKey', 'runId')
  if kind == 'in_flight' then return session[1] == owner or (lent and record[4] == owner) end
  return session[2] == owner or (lent and record[5] == owner)
end

return indexes

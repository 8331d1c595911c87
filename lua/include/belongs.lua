-- The private indexes by kind; `owner` is the label, run or node that an index is about, `member` a slot or a node.
local zsets = {beats = 1, drain_deadlines = 1, deadlines = 1, asked = 1, run = 1}
local hashes = {lent = 1, duty = 1}
local function index_of(kind, owner)
  local single = {beats = key_beats, deadlines = key_deadlines, draining = key_draining,
    drain_deadlines = key_drain_deadlines, suspects = key_suspects}
  local many = {asked = key_asked, run = key_run, lent = key_lent, duty = key_duty, node_slots = key_node_slots,
    pool_slots = key_pool_slots}
  return single[kind] or many[kind](owner)
end
local function listed_in(kind, owner, member)
  if kind == 'duty' then member = 'recycle:' .. member end
  local index = index_of(kind, owner)
  if zsets[kind] then return redis.call('ZSCORE', index, member) and true or false end
  return redis.call(hashes[kind] and 'HEXISTS' or 'SISMEMBER', index, member) == 1
end

-- Whether a member belongs into an index, by the record and the session of the slot it names, or by the set of nodes.
local function belongs(kind, owner, member)
  local of_nodes = {beats = 1, draining = 1, drain_deadlines = 1, suspects = 1}
  if of_nodes[kind] then return redis.call('SISMEMBER', key_nodes, member) == 1 end
  local record = redis.call('HMGET', key_slot(member), 'place', 'part', 'pool', 'label', 'run')
  local lent = record[1] == 'lent'
  if kind == 'lent' then return lent and record[2] == owner end
  if kind == 'node_slots' or kind == 'duty' then return record[2] == owner end
  if kind == 'pool_slots' then return record[3] == owner end
  if kind == 'deadlines' then return lent or redis.call('EXISTS', key_session(member)) == 1 end
  local session = redis.call('HMGET', key_session(member), 'labelKey', 'runId')
  if kind == 'asked' then return session[1] == owner or (lent and record[4] == owner) end
  return session[2] == owner or (lent and record[5] == owner)
end

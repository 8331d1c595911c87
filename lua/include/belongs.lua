-- Whether a member belongs into a private index, by the record and the session of the slot it names, or by the set of
-- registered nodes. `owner` is the label, run or node the index is about.
local function belongs(kind, owner, member)
  if kind == 'beats' or kind == 'draining' then return redis.call('SISMEMBER', key_nodes, member) == 1 end
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

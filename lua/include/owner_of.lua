-- The raw id of the node that is stored under a key part; nil when none is.
local function owner_of(part)
  local raw = redis.call('HGET', key_node(part), 'HubId')
  if raw then return raw end
  if redis.call('SISMEMBER', key_nodes, part) == 1 then return part end
end

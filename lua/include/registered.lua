-- Whether the node with this key part is on the books; `raw` is its id where that differs and is known, else ''.
local function registered(part, raw)
  if raw == '' then raw = redis.call('HGET', key_node(part), 'HubId') or part end
  return redis.call('SISMEMBER', key_nodes, raw) == 1
end

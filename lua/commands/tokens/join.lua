-- Store a token that a node has made for itself, with a token to join with. A node can do so once, while it has no token and is not
-- registered. Safe to repeat. Each call also deletes ten such tokens that were not shown for long, or whose node did not register.
-- Returns {'ok', time made in microseconds} | {'taken'} (the secret belongs to another token) | {'held'} (the node has another token) |
--   {'registered'} (the node is registered already) | {'barred'} (a token of the node was revoked) | {'full'} (too many tokens were
--   made with this token to join with whose nodes have not registered)
command.change('tokens/join', {
  'id',                   -- the first hex digits of the digest
  'digest',               -- SHA-256 of the secret
  'node',                 -- raw id of the node
  'user',                 -- the user of the token
  'part',                 -- key part of the id of the node
  'by',                   -- id of the token to join with
  'kept',                 -- '1' | 'once' (the node does not store it: it is deleted when the node leaves)
  'joining_ms: number',   -- for how long the token is kept for the node to register
  'joining_max: number',  -- most tokens made with the same token to join with whose nodes have not registered
}, function(a)
  for _, lapsed in ipairs(redis.call('ZRANGEBYSCORE', keys.joined, '-inf', store.clock_ms, 'LIMIT', 0, 10)) do tokens.drop(lapsed) end
  local kept = redis.call('HMGET', keys.token(a.id), 'digest', 'name', 'kind', 'at')
  if kept[1] then
    return kept[1] == a.digest and kept[2] == a.node and kept[3] == 'node' and {'ok', kept[4]} or {'taken'}
  end
  if redis.call('EXISTS', keys.barred(a.part)) == 1 then return {'barred'} end
  if redis.call('EXISTS', keys.node_tokens(a.part)) == 1 then return {'held'} end
  if redis.call('EXISTS', keys.node(a.part)) == 1 then return {'registered'} end
  local joining, deadline_ms = keys.joining(a.by), store.clock_ms + a.joining_ms
  redis.call('ZREMRANGEBYSCORE', joining, '-inf', store.clock_ms)
  if redis.call('ZCARD', joining) >= a.joining_max then return {'full'} end
  redis.call('ZADD', joining, deadline_ms, a.id)
  redis.call('PEXPIRE', joining, 24 * a.joining_ms)  -- the key may not end while the hub clock stands still
  redis.call('ZADD', keys.joined, deadline_ms, a.id)
  return {'ok', tokens.keep(a.id, a.part, 'digest', a.digest, 'name', a.node, 'user', a.user, 'superuser', '0', 'scopes', 'node', 'kind',
    'node', 'rooms', '', 'joined', a.kept, 'by', a.by)}
end)

-- A node makes a token of its own, once: while it has none, and before it is registered. Safe to repeat. Of those that
-- were made like this and not shown for long, ten are forgotten each time.
-- Returns {'ok', when it was made, us} | {'taken'} (the secret is another token's) | {'held'} (the node has another token)
--   | {'registered'} | {'barred'} (its token was revoked)
command.change('tokens/join', {
  'id',               -- the first digits of the digest
  'digest',           -- SHA-256 of the secret
  'node',
  'user',
  'part',             -- the id of the node as part of a key
  'keep_ms: number',
}, function(a)
  for _, lapsed in ipairs(redis.call('ZRANGEBYSCORE', keys.joined, '-inf', store.clock_ms, 'LIMIT', 0, 10)) do tokens.drop(lapsed) end
  local kept = redis.call('HMGET', keys.token(a.id), 'digest', 'name', 'kind', 'at')
  if kept[1] then
    return kept[1] == a.digest and kept[2] == a.node and kept[3] == 'node' and {'ok', kept[4]} or {'taken'}
  end
  if redis.call('EXISTS', keys.barred(a.part)) == 1 then return {'barred'} end
  if redis.call('EXISTS', keys.node_tokens(a.part)) == 1 then return {'held'} end
  if redis.call('EXISTS', keys.node(a.part)) == 1 then return {'registered'} end
  redis.call('ZADD', keys.joined, store.clock_ms + a.keep_ms, a.id)
  return {'ok', tokens.keep(a.id, a.part, 'digest', a.digest, 'name', a.node, 'user', a.user, 'superuser', '0', 'scopes', 'node', 'kind',
    'node', 'rooms', '', 'joined', '1')}
end)

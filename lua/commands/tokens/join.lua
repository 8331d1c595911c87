-- A node makes a token of its own, once: while it has none, and before it is registered. Safe to repeat. Of those that
-- were made like this and not shown for long, or whose node did not register, ten are forgotten each time.
-- Returns {'ok', when it was made, us} | {'taken'} (the secret is another token's) | {'held'} (the node has another token)
--   | {'registered'} | {'barred'} (its token was revoked) | {'full'} (too many joined with this one and did not register)
command.change('tokens/join', {
  'id',               -- the first digits of the digest
  'digest',           -- SHA-256 of the secret
  'node',
  'user',
  'part',             -- the id of the node as part of a key
  'by',               -- the id of the token to join with
  'kept',             -- '1' | 'once' (the node does not keep it: it ends when the node leaves)
  'joining_ms: number',
  'joining_max: number',
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
  redis.call('PEXPIRE', joining, 24 * a.joining_ms)  -- the hub clock may stand still meanwhile
  redis.call('ZADD', keys.joined, deadline_ms, a.id)
  return {'ok', tokens.keep(a.id, a.part, 'digest', a.digest, 'name', a.node, 'user', a.user, 'superuser', '0', 'scopes', 'node', 'kind',
    'node', 'rooms', '', 'joined', a.kept, 'by', a.by)}
end)

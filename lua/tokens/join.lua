-- A node makes a token of its own, once: while it has none, and before it is registered. Safe to repeat. Of those that
-- were made like this and not shown for long, ten are forgotten each time.
-- Returns {'ok', when it was made, us} | {'taken'} (the secret is another token's) | {'held'} (the node has another token)
--   | {'registered'} | {'barred'} (its token was revoked)
local id      = ARGV[1]              -- the first digits of the digest
local digest  = ARGV[2]              -- SHA-256 of the secret
local node    = ARGV[3]
local user    = ARGV[4]
local part    = ARGV[5]              -- the id of the node as part of a key
local keep_ms = tonumber(ARGV[6])
-- @include keep_token
-- @include drop_token
for _, lapsed in ipairs(redis.call('ZRANGEBYSCORE', key_joined, '-inf', clock_ms, 'LIMIT', 0, 10)) do drop_token(lapsed) end
local kept = redis.call('HMGET', key_token(id), 'digest', 'name', 'kind', 'at')
if kept[1] then
  return kept[1] == digest and kept[2] == node and kept[3] == 'node' and {'ok', kept[4]} or {'taken'}
end
if redis.call('EXISTS', key_barred(part)) == 1 then return {'barred'} end
if redis.call('EXISTS', key_node_tokens(part)) == 1 then return {'held'} end
if redis.call('EXISTS', key_node(part)) == 1 then return {'registered'} end
redis.call('ZADD', key_joined, clock_ms + keep_ms, id)
return {'ok', keep_token(id, part, 'digest', digest, 'name', node, 'user', user, 'superuser', '0', 'scopes', 'node', 'kind',
  'node', 'rooms', '', 'joined', '1')}

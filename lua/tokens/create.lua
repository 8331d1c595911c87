-- Keep a token by the digest of its secret. Safe to repeat: the same facts again change nothing.
-- Returns {'ok', when it was made, us} | {'taken'} (a token with other facts has this id)
local id        = ARGV[1]            -- the first digits of the digest
local digest    = ARGV[2]            -- SHA-256 of the secret
local name      = ARGV[3]            -- of its user
local user      = ARGV[4]
local superuser = ARGV[5]            -- '1' | '0'
local scopes    = ARGV[6]            -- words with blanks between them, '' for all
-- @include instant
local kept = redis.call('HMGET', key_token(id), 'digest', 'name', 'user', 'superuser', 'scopes', 'at')
if kept[1] then
  local same = kept[1] == digest and kept[2] == name and kept[3] == user and kept[4] == superuser and kept[5] == scopes
  return same and {'ok', kept[6]} or {'taken'}
end
local at = digits(next_us())
redis.call('HSET', key_token(id), 'digest', digest, 'name', name, 'user', user, 'superuser', superuser, 'scopes',
  scopes, 'at', at)
-- The first one makes strangers of all who showed nothing.
if redis.call('EXISTS', key_tokens) == 0 then redis.call('HSET', key_store, 'tokens_changed', at) end
redis.call('ZADD', key_tokens, at, id)
return {'ok', at}

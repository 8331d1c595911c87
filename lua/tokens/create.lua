-- Keep a token by the digest of its secret. Safe to repeat: the same facts again change nothing.
-- Returns {'ok', when it was made, us} | {'taken'} (a token with other facts has this id)
local id        = ARGV[1]            -- the first digits of the digest
local digest    = ARGV[2]            -- SHA-256 of the secret
local name      = ARGV[3]            -- of its user, or the id of its node
local user      = ARGV[4]
local superuser = ARGV[5]            -- '1' | '0'
local scopes    = ARGV[6]            -- words with blanks between them, '' for all
local kind      = ARGV[7]            -- 'user' | 'node' | 'join'
local rooms     = ARGV[8]            -- as scopes
local part      = ARGV[9]            -- of a node's id, '' for others
-- @include keep_token
local kept = redis.call('HMGET', key_token(id), 'digest', 'name', 'user', 'superuser', 'scopes', 'at', 'kind', 'rooms')
if kept[1] then
  local same = kept[1] == digest and kept[2] == name and kept[3] == user and kept[4] == superuser and kept[5] == scopes
    and (kept[7] or 'user') == kind and (kept[8] or '') == rooms
  return same and {'ok', kept[6]} or {'taken'}
end
if part ~= '' then redis.call('DEL', key_barred(part)) end
return {'ok', keep_token(id, part, 'digest', digest, 'name', name, 'user', user, 'superuser', superuser, 'scopes', scopes,
  'kind', kind, 'rooms', rooms)}

-- Store a token by the digest of its secret. Safe to repeat: the same facts change nothing. Returns {'ok', time made in microseconds} |
-- {'taken'} (a token with other facts has this id)
command.change('tokens/create', {
  'id',         -- the first hex digits of the digest
  'digest',     -- SHA-256 of the secret
  'name',       -- name of its user, or id of its node
  'user',       -- the user of the token
  'superuser',  -- '1' | '0'
  'scopes',     -- words separated by blanks, '' for all
  'kind',       -- 'user' | 'node' | 'join' (to join with)
  'rooms',      -- names separated by blanks, '' for all
  'terms',      -- JSON: what it may borrow, and for how long the token is good; '' for neither
  'part',       -- key part of the id of its node, '' for other kinds
}, function(a)
  local kept = redis.call('HMGET', keys.token(a.id), 'digest', 'name', 'user', 'superuser', 'scopes', 'at', 'kind', 'rooms',
    'terms')
  if kept[1] then
    local same = kept[1] == a.digest and kept[2] == a.name and kept[3] == a.user and kept[4] == a.superuser and kept[5] == a.scopes
      and (kept[7] or 'user') == a.kind and (kept[8] or '') == a.rooms and (kept[9] or '') == a.terms
    return same and {'ok', kept[6]} or {'taken'}
  end
  if a.part ~= '' then redis.call('DEL', keys.barred(a.part)) end
  return {'ok', tokens.keep(a.id, a.part, 'digest', a.digest, 'name', a.name, 'user', a.user, 'superuser', a.superuser, 'scopes', a.scopes,
    'kind', a.kind, 'rooms', a.rooms, 'terms', a.terms)}
end)

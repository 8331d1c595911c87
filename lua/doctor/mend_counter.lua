-- Move the token counter above a token that was issued and above the start of this store. Safe to repeat: it never
-- moves back. Returns {'ok', counter}
local issued = ARGV[1]
-- @include store
-- @include above
for _, floor in ipairs({redis.call('HGET', key_store, 'lost_below') or '0', issued}) do
  local token = redis.call('HGET', key_store, 'token') or '0'
  if above(floor, token) then redis.call('HSET', key_store, 'token', floor) end
end
return {'ok', redis.call('HGET', key_store, 'token')}

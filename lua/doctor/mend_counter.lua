-- Move the token counter above a token that was issued and above the start of this store. Safe to repeat: it never
-- moves back. Returns {'ok', counter}
local issued = ARGV[1]
-- @include store
local opened_s = string.match(opened[1], '^(%d+)%d%d%d%-') or '0'
local function raise(floor)
  local token = redis.call('HGET', key_store, 'token') or '0'
  if #token < #floor or (#token == #floor and token < floor) then redis.call('HSET', key_store, 'token', floor) end
end
raise(string.format('%.0f', tonumber(opened_s) * 2147483648))
raise(issued)
return {'ok', redis.call('HGET', key_store, 'token')}

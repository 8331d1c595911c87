-- Which node timeout holds for all hubs: that of the first of them, until all that are heard want another one. Safe to
-- repeat. Returns the node timeout in ms that holds
local hub  = ARGV[1]
local mine = ARGV[2]                 -- the node timeout that this hub was given, ms
-- @include ticket
redis.call('HSET', key_store, 'wants:' .. hub, mine)
local agreed = true
for _, field in ipairs(redis.call('HKEYS', key_store)) do
  local other = string.match(field, '^wants:(.+)$')
  if other and other ~= hub and not heard(other) then
    redis.call('HDEL', key_store, field)
  elseif other and redis.call('HGET', key_store, field) ~= mine then
    agreed = false
  end
end
if agreed or not opened[6] then
  opened[6] = mine
  redis.call('HSET', key_store, 'timeout_ms', mine)
end
return tonumber(opened[6])

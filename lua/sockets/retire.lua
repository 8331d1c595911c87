-- Forget the connections of hubs that are gone, in bites: nobody saw their workers hang up, so their heartbeats decide.
-- Safe to repeat.
-- Returns {'ok', connections forgotten, 1 | 0 (there may be more), 1 | 0 (`hub` is known to have connections)}
local hub   = ARGV[1]
local limit = tonumber(ARGV[2])
-- @include store
-- @include unbound
local forgotten = 0
for _, other in ipairs(redis.call('SMEMBERS', key_socket_hubs)) do
  if other ~= hub and not redis.call('ZSCORE', key_hubs, other) then
    for _, connection in ipairs(redis.call('SRANDMEMBER', key_connections(other), limit - forgotten)) do
      unbind(connection, other, function() end)
      forgotten = forgotten + 1
    end
    if forgotten == limit then break end
    if redis.call('EXISTS', key_connections(other)) == 0 then redis.call('SREM', key_socket_hubs, other) end
  end
end
return {'ok', forgotten, forgotten == limit and 1 or 0, redis.call('SISMEMBER', key_socket_hubs, hub)}

-- A connection has ended: workers that have no other one are to be removed unless they are back in time. Safe to repeat.
-- Returns {'ok', workers that have hung up}
local connection = ARGV[1]
local hub        = ARGV[2]
local grace_ms   = tonumber(ARGV[3])  -- on the hub clock; -1: nothing is held against them, their heartbeats decide
-- @include store
-- @include unbound
local hung_up = 0
unbind(connection, hub, function(worker)
  if grace_ms < 0 then return end
  redis.call('ZADD', key_hung_up, clock_ms + grace_ms, worker)
  hung_up = hung_up + 1
end)
return {'ok', hung_up}

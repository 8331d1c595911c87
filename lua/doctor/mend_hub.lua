-- Count a hub that left something behind among those that are gone, for its waiters to be dropped. Safe to repeat.
-- Returns {'ok'}
local hub = ARGV[1]
-- @include store
redis.call('ZADD', key_hubs, 'NX', clock_ms - 60000, hub)
return {'ok'}

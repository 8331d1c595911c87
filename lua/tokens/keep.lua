-- A token that a node has made for itself was shown: it is kept for as long again. Safe to repeat. Returns {'ok'}
local id      = ARGV[1]
local keep_ms = tonumber(ARGV[2])
-- @include store
redis.call('ZADD', key_joined, 'XX', clock_ms + keep_ms, id)
return {'ok'}

-- Is this token the one of the grant that holds the slot now? Changes nothing.
-- Returns {'ok', ms left} | {'not lent'} | {'stale token'} | {'lapsed'}
local slot  = ARGV[1]
local token = ARGV[2]
-- @include store
local held = redis.call('HGET', key_session(slot), 'leaseToken')
if not held then return {'not lent'} end
if held ~= token then return {'stale token'} end
local left_ms = tonumber(redis.call('ZSCORE', key_deadlines, slot) or '0') - clock_ms
if left_ms <= 0 then return {'lapsed'} end
return {'ok', math.floor(left_ms)}

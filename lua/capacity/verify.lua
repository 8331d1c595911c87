-- Is this token the one of the grant that holds the slot now? Changes nothing.
-- Returns {'ok', ms left} | {'not lent'} | {'stale token'} | {'lapsed'}
--   | {'settling'} (the store was lost, and its node has yet to say what is lent)
local slot  = ARGV[1]
local token = ARGV[2]
-- @include store
-- @include missing_grant
local held = redis.call('HGET', key_session(slot), 'leaseToken')
if held ~= token and missing_grant(slot, token, held) then return {'settling'} end
if not held then return {'not lent'} end
if held ~= token then return {'stale token'} end
local left_ms = tonumber(redis.call('ZSCORE', key_deadlines, slot) or '0') - clock_ms
if left_ms <= 0 then return {'lapsed'} end
return {'ok', math.floor(left_ms)}

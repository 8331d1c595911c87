-- Extend a lease to ttl_ms from now, never beyond max_ms from the grant and never backwards. Safe to repeat.
-- Returns {'ok', token, ms left} | {'over'} (no such grant, a later one, or its deadline has passed)
--   | {'settling'} (the store was lost, and its node has yet to say what is lent)
local slot   = ARGV[1]
local token  = ARGV[2]               -- '' when the caller has none
local ttl_ms = tonumber(ARGV[3])
local max_ms = tonumber(ARGV[4])
-- @include store
-- @include missing_grant
local held = redis.call('HGET', key_session(slot), 'leaseToken')
if held ~= token and missing_grant(slot, token, held) then return {'settling'} end
local deadline = tonumber(redis.call('ZSCORE', key_deadlines, slot) or '0')
if held and deadline <= clock_ms and settle_left_ms > 0 then return {'settling'} end
if not held or (token ~= '' and held ~= token) or deadline <= clock_ms then return {'over'} end
local record = redis.call('HMGET', key_slot(slot), 'granted_ms', 'watch_idle')
local latest = tonumber(record[1] or clock_ms) + max_ms
deadline = math.max(deadline, math.min(clock_ms + ttl_ms, latest))
local left_ms = math.floor(deadline - clock_ms)
redis.call('ZADD', key_deadlines, clock_ms + left_ms, slot)
redis.call('SET', key_borrow_ttl(slot), '1', 'PX', left_ms)
redis.call('HSET', key_slot(slot), 'visible_ms', now_ms + left_ms)
local idle_ms = tonumber(record[2] or '0')
if idle_ms > 0 then redis.call('SET', key_borrow_idle(slot), '1', 'PX', math.max(idle_ms, left_ms)) end
return {'ok', held, left_ms}

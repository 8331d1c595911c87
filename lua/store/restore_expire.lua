-- Bring back the run-time value of HUB_SWEEPER_EXPIRE, or that it was cleared, after a loss of the store has taken it,
-- unless it was switched again since. Safe to repeat. Returns {'restored' | 'kept'}
local expire = ARGV[1]               -- as for switch_expire
local by     = ARGV[2]
local at     = ARGV[3]               -- '' when nobody ever switched it
if at <= (redis.call('HGET', key_store, 'expire_at') or '') then return {'kept'} end
redis.call('HSET', key_store, 'expire', expire, 'expire_by', by, 'expire_at', at)
if expire == '' then redis.call('HDEL', key_store, 'expire') end
return {'restored'}

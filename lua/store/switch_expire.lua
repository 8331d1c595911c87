-- Set or clear the run-time value of HUB_SWEEPER_EXPIRE for all hubs. Who did it and when stays also when it is cleared:
-- a hub that brings the value back after a loss of the store tells by that which one is the latest.
-- Returns {'ok', expire or '', by, at}
local expire = ARGV[1]               -- 'true' | 'false' | '' to go back to each hub's setting
local by     = ARGV[2]
-- @include store
-- @include time_text
-- @include history
local at = time_text(now_ms)
if (redis.call('HGET', key_store, 'expire') or '') ~= expire then
  note('sweep.switched', 'expire', expire, 'by', by, 'why', expire == '' and 'cleared' or '')
end
redis.call('HSET', key_store, 'expire', expire, 'expire_by', by, 'expire_at', at)
if expire == '' then redis.call('HDEL', key_store, 'expire') end
return {'ok', expire, by, at}

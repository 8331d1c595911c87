-- Set or clear the run-time value of HUB_SWEEPER_EXPIRE for all hubs. Returns {'ok', expire or '', by, at}
local expire = ARGV[1]               -- 'true' | 'false' | '' to go back to each hub's setting
local by     = ARGV[2]
-- @include store
-- @include time_text
if expire == '' then
  redis.call('HDEL', key_store, 'expire', 'expire_by', 'expire_at')
  return {'ok', '', '', ''}
end
local at = time_text(now_ms)
redis.call('HSET', key_store, 'expire', expire, 'expire_by', by, 'expire_at', at)
return {'ok', expire, by, at}

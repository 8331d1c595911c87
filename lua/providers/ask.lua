-- Ask a provider for a result, unless it is there or has been asked for. Returns {'ready' | 'asked' | 'waiting'}
local full   = ARGV[1]
local id     = ARGV[2]
local hash   = ARGV[3]               -- of the parameters
local params = ARGV[4]               -- the text that was hashed
local ttl_ms = ARGV[5]               -- for how long nobody asks again
-- @include emit
if redis.call('EXISTS', key_result(id .. ':' .. hash)) == 1 then return {'ready'} end
if not redis.call('SET', key_inflight(id .. ':' .. hash), '1', 'NX', 'PX', ttl_ms) then return {'waiting'} end
emit('provider_request', 'providers:' .. full, '{"request_id":"' .. hash .. '","provider_name":' .. cjson.encode(full)
  .. ',"params":' .. cjson.encode(params) .. '}')
return {'asked'}

-- Ask a provider for a result, unless it is there or has been asked for since a client joined the provider's room: what
-- was asked before that, nobody may have heard. Returns {'ready' | 'asked' | 'waiting'}
local full   = ARGV[1]
local id     = ARGV[2]
local hash   = ARGV[3]               -- of the parameters
local params = ARGV[4]               -- the text that was hashed
local ttl_ms = ARGV[5]               -- for how long nobody asks again
local want_ms = ARGV[6]              -- for how long an answer is taken
-- @include emit
if redis.call('EXISTS', key_result(id .. ':' .. hash)) == 1 then return {'ready'} end
local asked = redis.call('GET', key_inflight(id .. ':' .. hash))
local joined = redis.call('HGET', key_provider(full), 'joined')
if asked and tonumber(asked) >= tonumber(joined or '0') then return {'waiting'} end
redis.call('SET', key_inflight(id .. ':' .. hash), digits(now_us), 'PX', ttl_ms)
redis.call('SET', key_wanted(id .. ':' .. hash), '', 'PX', want_ms)
emit('provider_request', 'providers:' .. full, '{"request_id":"' .. hash .. '","provider_name":' .. cjson.encode(full)
  .. ',"params":' .. cjson.encode(params) .. '}')
return {'asked'}

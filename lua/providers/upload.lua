-- Keep what a provider answered, for its owner or a superuser, and wake whoever waits for it.
-- Returns {'ok'} | {'provider'} (unknown) | {'forbidden'}
local id        = ARGV[1]
local user      = ARGV[2]
local superuser = ARGV[3]            -- '1' | '0'
local hash      = ARGV[4]
local body      = ARGV[5]
local ttl_ms    = ARGV[6]
-- @include emit
local full = redis.call('GET', key_provider_name(id))
if not full then return {'provider'} end
if superuser ~= '1' and redis.call('HGET', key_provider(full), 'user') ~= user then return {'forbidden'} end
redis.call('SET', key_result(id .. ':' .. hash), body, 'PX', ttl_ms)
redis.call('DEL', key_inflight(id .. ':' .. hash))
redis.call('PUBLISH', key_result_bell(id .. ':' .. hash), '')
emit('provider_result_ready', 'room:' .. room_of(full), '{"provider_name":' .. cjson.encode(full) .. ',"request_hash":'
  .. cjson.encode(hash) .. '}')
return {'ok'}

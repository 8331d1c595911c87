-- Keep what a provider answers to what it was asked, for its owner or a superuser, and wake whoever waits for it. What a room
-- has too much of goes, the oldest first.
-- Returns {'ok'} | {'provider'} (unknown) | {'forbidden'} | {'unasked'} | {'quota'} (no room may have as much)
local id        = ARGV[1]
local user      = ARGV[2]
local superuser = ARGV[3]            -- '1' | '0'
local hash      = ARGV[4]
local body      = ARGV[5]
local ttl_ms    = ARGV[6]
local quota     = tonumber(ARGV[7])  -- bytes of results a room may have
-- @include emit
local full = redis.call('GET', key_provider_name(id))
if not full then return {'provider'} end
if superuser ~= '1' and redis.call('HGET', key_provider(full), 'user') ~= user then return {'forbidden'} end
local about = id .. ':' .. hash
if redis.call('EXISTS', key_wanted(about)) == 0 then return {'unasked'} end
if #body > quota then return {'quota'} end

local list, sizes = key_room_results(room_of(full)), key_room_sizes(room_of(full))
local function forget(result)
  local size = redis.call('HGET', sizes, result)
  if size then redis.call('HINCRBY', sizes, 'total', 0 - tonumber(size)) end
  redis.call('HDEL', sizes, result)
  redis.call('ZREM', list, result)
end
for _, lapsed in ipairs(redis.call('ZRANGEBYSCORE', list, '-inf', now_ms, 'LIMIT', 0, 100)) do forget(lapsed) end
forget(about)
while tonumber(redis.call('HGET', sizes, 'total') or '0') + #body > quota do
  local oldest = redis.call('ZRANGE', list, 0, 0)[1]
  if not oldest then break end
  redis.call('DEL', key_result(oldest))
  forget(oldest)
end
redis.call('ZADD', list, now_ms + ttl_ms, about)
redis.call('HSET', sizes, about, #body)
redis.call('HINCRBY', sizes, 'total', #body)
for _, key in ipairs({list, sizes}) do redis.call('PEXPIRE', key, ttl_ms + 60000) end

redis.call('SET', key_result(about), body, 'PX', ttl_ms)
redis.call('DEL', key_inflight(about))
redis.call('PUBLISH', key_result_bell(about), '')
emit('provider_result_ready', 'room:' .. room_of(full), '{"provider_name":' .. cjson.encode(full) .. ',"request_hash":'
  .. cjson.encode(hash) .. '}')
return {'ok'}

-- List a provider where it belongs, or drop one that nobody answers for. Safe to repeat. Returns {'ok'}
local full = ARGV[1]
-- @include drop_provider
local id, at, worker = unpack(redis.call('HMGET', key_provider(full), 'id', 'at', 'worker'))
if id and at and worker and redis.call('EXISTS', key_worker(worker)) == 1 then
  redis.call('ZADD', key_room_providers(room_of(full)), at, full)
  redis.call('SADD', key_worker_providers(worker), full)
  redis.call('SET', key_provider_name(id), full)
elseif id and worker then
  drop_provider(full)
else
  redis.call('DEL', key_provider(full))
  redis.call('ZREM', key_room_providers(room_of(full)), full)
end
return {'ok'}

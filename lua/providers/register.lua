-- Register a provider for a worker, or take it over: schema, content type, worker and owner become the caller's, the id and
-- its place in the lists stay, and with the id what is cached. A refusal leaves no trace. Safe to repeat.
-- Returns {'created' | 'replaced', id, at, worker} | {'worker'} (unknown, or not the caller's) | {'forbidden'} (somebody else's)
local full         = ARGV[1]
local id           = ARGV[2]         -- for a provider that is new
local schema       = ARGV[3]
local content_type = ARGV[4]
local worker       = ARGV[5]
local user         = ARGV[6]
local superuser    = ARGV[7]         -- '1' | '0'
local made_for     = ARGV[8]         -- '1': the worker is new
-- @include worker
local owner = redis.call('HGET', key_worker(worker), 'user')
if owner ~= user and not (made_for == '1' and not owner) then return {'worker'} end
local p = redis.call('HMGET', key_provider(full), 'id', 'at', 'worker', 'user')
if p[1] and p[4] ~= user and superuser ~= '1' then return {'forbidden'} end

local word = p[1] and p[1] ~= id and 'replaced' or 'created'
local at = p[2] or digits(next_us())
if not owner then create_worker(worker, user) end
if p[3] then redis.call('SREM', key_worker_providers(p[3]), full) end
redis.call('SADD', key_worker_providers(worker), full)
redis.call('HSET', key_provider(full), 'id', p[1] or id, 'at', at, 'schema', schema, 'type', content_type, 'worker', worker,
  'user', user)
redis.call('SET', key_provider_name(p[1] or id), full)
redis.call('ZADD', key_room_providers(room_of(full)), at, full)
emit_providers(room_of(full))
return {word, p[1] or id, at, worker}

-- Delete a provider, for its owner or a superuser. Returns {'ok'} | {'provider'} (unknown) | {'forbidden'}
local id        = ARGV[1]
local user      = ARGV[2]
local superuser = ARGV[3]            -- '1' | '0'
local request   = ARGV[4]            -- a repeat of the one that deleted it is answered as it was
-- @include drop_provider
local full = redis.call('GET', key_provider_name(id))
if not full then return {redis.call('EXISTS', key_claim(request)) == 1 and 'ok' or 'provider'} end
if superuser ~= '1' and redis.call('HGET', key_provider(full), 'user') ~= user then return {'forbidden'} end
drop_provider(full)
redis.call('SET', key_claim(request), '', 'EX', 60)
return {'ok'}

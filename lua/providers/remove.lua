-- Delete a provider, for its owner or a superuser. Returns {'ok'} | {'provider'} (unknown) | {'forbidden'}
local id        = ARGV[1]
local user      = ARGV[2]
local superuser = ARGV[3]            -- '1' | '0'
-- @include drop_provider
local full = redis.call('GET', key_provider_name(id))
if not full then return {'provider'} end
if superuser ~= '1' and redis.call('HGET', key_provider(full), 'user') ~= user then return {'forbidden'} end
drop_provider(full)
return {'ok'}

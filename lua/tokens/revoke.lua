-- Forget a token: whoever shows it is a stranger from now on. Returns {'ok'} | {'unknown'}
local id = ARGV[1]
-- @include store
redis.call('ZREM', key_tokens, id)
return {redis.call('DEL', key_token(id)) == 1 and 'ok' or 'unknown'}

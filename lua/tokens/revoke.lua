-- Forget a token: whoever shows it is a stranger from now on, and all hubs look up anew whom they remember.
-- Returns {'ok'} | {'unknown'}
local id = ARGV[1]
-- @include instant
if redis.call('EXISTS', key_token(id)) == 1 then redis.call('HSET', key_store, 'tokens_changed', digits(next_us())) end
redis.call('ZREM', key_tokens, id)
return {redis.call('DEL', key_token(id)) == 1 and 'ok' or 'unknown'}

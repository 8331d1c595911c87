-- Forget a token: whoever shows it is a stranger from now on. Returns {'ok'} | {'unknown'}
local id     = ARGV[1]
local bar_ms = tonumber(ARGV[2])     -- for how long nobody joins as its node, 0: at once
-- @include drop_token
local known, part = drop_token(id)
if known and part ~= '' and bar_ms > 0 then redis.call('SET', key_barred(part), '', 'PX', bar_ms) end
return {known and 'ok' or 'unknown'}

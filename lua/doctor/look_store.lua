-- Look at the token counter: it starts above every token that was issued before the store was opened. Changes nothing.
-- Returns {{} | {'counter low'}}
-- @rest ignored
-- @include store
local opened_s = tonumber(string.match(opened[1], '^(%d+)%d%d%d%-') or '0')
local token = tonumber(redis.call('HGET', key_store, 'token') or '0')
return {token < opened_s * 2147483648 and {'counter low'} or {}}

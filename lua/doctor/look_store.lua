-- Look at the token counter: it starts above every token that was issued before the store was opened. Changes nothing.
-- Returns {{} | {'counter low'}}
-- @rest ignored
-- @include store
-- @include above
local store = redis.call('HMGET', key_store, 'token', 'lost_below')
return {above(store[2] or '0', store[1] or '0') and {'counter low'} or {}}

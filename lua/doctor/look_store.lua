-- Look at what every script reads of the store: the token counter starts above every token that was issued before the
-- store was opened; whether anybody waits, and whether there is a cap. Changes nothing.
-- Returns one list of words; hub/doctor/words.py says what each means.
-- @rest ignored
-- @include store
-- @include above
local store = redis.call('HMGET', key_store, 'token', 'lost_below')
local words = {}
if above(store[2] or '0', store[1] or '0') then words[#words + 1] = 'counter low' end
if opened[9] ~= '1' and redis.call('EXISTS', key_turns) == 1 then words[#words + 1] = 'line forgotten' end
if opened[10] ~= '1' and redis.call('EXISTS', key_caps) == 1 then words[#words + 1] = 'caps forgotten' end
return {words}

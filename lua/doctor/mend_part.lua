-- Delete what is kept for a node that is not on the books and owns nothing. Safe to repeat. Returns {'ok'}
local part = ARGV[1]
local raw  = ARGV[2]                 -- its id where that is known to differ from the key part, else ''
-- @include registered
if registered(part, raw) or redis.call('HEXISTS', key_leaving, part) == 1 then return {'ok'} end
redis.call('DEL', key_node(part))
if redis.call('EXISTS', key_node_slots(part), key_lent(part)) == 0 then redis.call('DEL', key_duty(part)) end
return {'ok'}

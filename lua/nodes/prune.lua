-- Drop the next slots of a node that is already off the books. Safe to repeat.
-- Returns {'ok', slots dropped, {slots whose grant ended}, slots left}
local part  = ARGV[1]
local limit = tonumber(ARGV[2])
-- @include remove_node
-- @include serve
if redis.call('HEXISTS', key_leaving, part) == 0 then return {'ok', 0, {}, 0} end
local dropped, ended, left = prune(part, limit)
serve_opened()
return {'ok', dropped, ended, left}
